//! Offsets by time.

use rdkafka::consumer::Consumer;
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::clients::{COMMITTED, LIMIT, Producer, client, consumer};
use crate::cluster::Cluster;

#[test]
fn the_first_record_at_or_after_a_time_is_found_in_batches_of_every_codec() {
    let cluster = Cluster::new("times");
    for codec in ["none", "gzip", "snappy", "lz4"] {
        let topic = cluster.topic(codec, 1);
        let producer: Producer =
            client(&cluster).set("compression.codec", codec).set("linger.ms", "50").create().unwrap();
        for batch in [&[1000, 4000, 2000][..], &[3000], &[5000, 6000]] {
            for time in batch {
                let record = BaseRecord::to(&topic).partition(0).key("k").payload("value value value").timestamp(*time);
                producer.send(record).map_err(|(error, _)| error).unwrap();
            }
            producer.flush(LIMIT).unwrap();
        }
        let reader = consumer(&cluster, &cluster.name("r"), COMMITTED);
        let at = |time| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, 0, Offset::Offset(time)).unwrap();
            let found = reader.offsets_for_times(list, LIMIT).unwrap();
            found.elements()[0].offset()
        };
        let found = [0, 1000, 1001, 2001, 4001, 5001, 6001].map(at);
        let expected = [0, 0, 1, 1, 4, 5].map(Offset::Offset);
        assert_eq!(found[..6], expected, "{codec}");
        assert_eq!(found[6], Offset::End, "{codec}: behind all of them");
    }
}
