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
