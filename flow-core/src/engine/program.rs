use crate::topology::{SinkInfo, Source, StoreInfo};

pub(crate) struct Program {
    pub(crate) index: usize,
    pub(crate) sources: Vec<Source>,
    pub(crate) store_infos: Vec<StoreInfo>,
    pub(crate) sinks: Vec<SinkInfo>,
}
