//! Kafka's partitioner: murmur2 over the key's bytes. (librdkafka's default, CRC32, would put keys elsewhere than Java does.)

use crate::Partition;

/// The partition of a key in a topic of `partitions` partitions, as Kafka's Java clients choose it.
///
/// A count below 1 is taken as 1.
pub fn partition_for(key: &[u8], partitions: i32) -> Partition {
    let positive = murmur2(key) & 0x7fff_ffff;
    Partition((positive % partitions.max(1).unsigned_abs()) as i32)
}

/// MurmurHash2, 32 bits, with the seed that Kafka uses.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        for (at, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_kafkas_java_clients_send_them() {
        // Key, murmur2, number of partitions, partition: recorded from Kafka 4.3.1.
        let recorded: &[(&[u8], i32, i32, i32)] = &[
            (b"", 275646681, 1, 0),
            (b"\x61", -1563381124, 2, 0),
            (b"\x62", -1853091852, 3, 2),
            (b"\x6b\x65\x79", -1079937367, 4, 1),
            (b"\x6b\x61\x66\x6b\x61", -798503068, 6, 4),
            (b"\x30\x31\x32\x33\x34\x35\x36\x37\x38\x39", -631703640, 7, 1),
            (b"\x47\x72\xc3\xbc\xc3\x9f\x65", 1190824359, 10, 9),
            (b"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87", 2122343024, 12, 8),
            (b"\xe3\x82\xad\xe3\x83\xbc", -443984012, 16, 4),
            (b"\xf0\x9f\x9a\x80", 761778625, 31, 1),
            (b"\x20", -987232127, 50, 21),
            (b"\x61\x00\x62", -19837367, 64, 9),
            (b"\x00", 375494588, 128, 60),
            (b"\x7f", 21296028, 1000, 28),
            (b"\x80", 857690492, 1, 0),
            (b"\xc3", -119494966, 2, 0),
            (b"\xfe", 155051004, 3, 0),
            (b"\xff", -311467685, 4, 3),
            (b"\xff\xfe\xfd", 998637092, 6, 2),
            (b"\xc0\x80\xed\xa0", 252279804, 7, 0),
            (b"\x00\x00\x00\x00\x00\x00\x00\x00", -522759933, 10, 5),
            (b"\x00\x00\x00\x00\x00\x00\x00\x01", 2100486060, 12, 0),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", 185950397, 16, 13),
            (b"\x00\x00\x00\x00\x00\x00\x00\x2a", 506863552, 31, 5),
            (b"\x7f\xff\xff\xff\xff\xff\xff\xff", -1236687672, 50, 26),
            (b"\x80\x00\x00\x00\x00\x00\x00\x00", 1290709624, 64, 56),
            (b"\x4a\x62\x93\xbc\xaf\x76\x63\x9b\x03\x41\x21", 116461632, 3, 0),
            (b"\x17\x47\x77\x3a\xc3\x19\x4f\x40\xf8\xba\x5e\x39\x78", -1699117536, 4, 0),
            (b"\xf8\x3e\x85", -2127409071, 6, 5),
            (b"\x65", -967466694, 7, 4),
            (b"\x1c\xc7\x7d\x73\xef\x82\x33\xf6\xca\xcc", -941210056, 10, 2),
            (b"\x57\x9e\x40\x1b\x43\x37\x0a\x06\x2b\xe0\x9c\xc7\xa7\xac\xb3\x32\x9f\x4e\x0c", -2054982770, 12, 6),
            (b"\x90\x3f\xc7\x29\x4e\xa8\xe6\xd6\x71\xc5\xae\xdf\x26", 433376931, 16, 3),
            (b"\xf6\x4f\xfe\x6b\x66\x8b", 929183480, 128, 120),
            (b"\x83\xc6\x4d\x95\xcf\x34\x32\x25", -1948667168, 1000, 480),
            (b"\xe2\xa7\x3b\x72\x97\xb7\xbe\xd2\x61\xc7\x34\x59\x7d\xab\x66\xe4", -407086585, 1, 0),
            (b"\x90\x94\x90\x64\x38\xe8\x8e\xd8\xc3\xd2\x90\x1a\xc0\x45\xf0\x32\xcb\x5c\x12", -760266611, 4, 1),
            (b"", 275646681, 12, 9),
            (b"\x51\xbb\x24\xb6\xe9\x7e\x44\x92\x42\xbd\x25", -512392, 16, 8),
            (b"\x85\x99\x9a\xb6", -1425778095, 50, 3),
        ];
        for &(key, hash, partitions, partition) in recorded {
            assert_eq!(murmur2(key) as i32, hash, "{key:?}");
            assert_eq!(partition_for(key, partitions), Partition(partition), "{key:?}");
        }
    }

    #[test]
    fn a_topic_without_partitions_does_not_divide_by_zero() {
        assert_eq!(partition_for(b"k", 0), Partition(0));
        assert_eq!(partition_for(b"k", -3), Partition(0));
    }
}
