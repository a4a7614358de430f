//! What a record keeps on its way.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseRecord, Producer as _};

use crate::clients::{COMMITTED, LIMIT, consumer, offset_of, producer, wait_until};
use crate::cluster::Cluster;

#[test]
fn k_nulls_headers_and_times_arrive_as_sent() {
    let cluster = Cluster::new("k");
    let topic = cluster.topic("t", 1);
    let empty: &[u8] = b"";
    let headers = [("n", None), ("e", Some(empty)), ("d", Some(&b"1"[..])), ("d", Some(&[0, 255][..]))];
    let header_list =
        headers.iter().fold(OwnedHeaders::new(), |list, &(key, value)| list.insert(Header { key, value }));
    let to = || BaseRecord::<[u8], [u8]>::to(&topic).partition(0);
    let producer = producer(&cluster);
    let sent = [
        to().key(b"k").payload(b"v").timestamp(1000).headers(header_list),
        to().payload(b"v").timestamp(-5),
        to().key(b"k"),
        to().key(empty).payload(empty),
        to(),
    ];
    for record in sent {
        producer.send(record).map_err(|(error, _)| error).unwrap();
        producer.flush(LIMIT).unwrap();
    }

    let reader = consumer(&cluster, &cluster.name("r"), COMMITTED);
    reader.assign(&offset_of(&topic, 0, 0)).unwrap();
    let mut records: Vec<OwnedMessage> = vec![];
    wait_until(|| {
        let polled = reader.poll(Duration::from_millis(20));
        records.extend(polled.map(|record| record.unwrap().detach()));
        records.len() == 5
    });

    let pairs: Vec<_> = records.iter().map(|record| (record.key(), record.payload())).collect();
    let (k, v) = (Some(&b"k"[..]), Some(&b"v"[..]));
    assert_eq!(pairs, [(k, v), (None, v), (k, None), (Some(empty), Some(empty)), (None, None)]);
    let kept: Vec<_> = records[0].headers().unwrap().iter().map(|header| (header.key, header.value)).collect();
    assert_eq!(kept, headers);
    assert_eq!(records[0].timestamp().to_millis(), Some(1000));
    assert_eq!(records[1].timestamp().to_millis(), Some(-5), "also before 1970");
}
