//! `Produce`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::PartitionProduceData;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};

use super::Machine;
use super::log::Batch;

impl Machine {
    /// `None` if the client wants no answer.
    pub(super) fn produce(&mut self, request: ProduceRequest, now: i64) -> Option<ProduceResponse> {
        let acks = request.acks;
        let transactional_id = request.transactional_id.as_ref().map(|id| id.as_str());
        let responses = request.topic_data.into_iter().map(|topic| {
            let responses = topic.partition_data.into_iter().map(|data| {
                let index = data.index;
                let appended = match acks {
                    -1..=1 => self.append(transactional_id, &topic.name, data, now),
                    _ => Err(ResponseError::InvalidRequiredAcks),
                };
                answer(index, appended)
            });
            let responses = responses.collect();
            TopicProduceResponse::default().with_name(topic.name).with_partition_responses(responses)
        });
        let responses = responses.collect();
        (acks != 0).then(|| ProduceResponse::default().with_responses(responses))
    }

    /// Appends a batch: the offset of its first record, the time it was given and the first offset of the log.
    fn append(
        &mut self,
        transactional_id: Option<&str>,
        topic: &TopicName,
        data: PartitionProduceData,
        now: i64,
    ) -> Result<Appended, ResponseError> {
        let found = self.topics.get_mut(topic)?;
        let (rules, is_cleaned) = (found.rules, found.is_cleaned());
        let log = found.partition_mut(data.index)?;
        let batch = Batch::parse(data.records.unwrap_or_default())?;
        if batch.is_transactional() {
            self.transactions.verify(transactional_id, &batch, topic, data.index, &self.options)?;
        }
        let offset = log.append(batch, &rules, now)?;
        self.fetches.wake(&log.waiting);
        if is_cleaned {
            self.cleaner.wake(now, &self.options);
        }
        let log_append_time = if rules.log_append_time { now } else { -1 };
        Ok(Appended { offset, log_append_time, log_start: log.start() })
    }
}

struct Appended {
    offset: i64,
    log_append_time: i64,
    log_start: i64,
}

fn answer(index: i32, appended: Result<Appended, ResponseError>) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default().with_index(index);
    match appended {
        Ok(appended) => response
            .with_base_offset(appended.offset)
            .with_log_append_time_ms(appended.log_append_time)
            .with_log_start_offset(appended.log_start),
        Err(error) => response.with_error_code(error.code()).with_base_offset(-1).with_log_append_time_ms(-1),
    }
}
