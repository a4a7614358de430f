//! Unpacking a batch, where the broker has to look at single records: for compaction, and for the rule that a compacted topic
//! takes no record without a key. What is stored and served stays as the client packed it.

use std::io::{Read, Write};

/// No batch unpacks to more than this; one that claims to is refused like any other that cannot be unpacked.
const UNPACKED_MAX: u64 = 256 * 1024 * 1024;

/// What the Java client puts in front of snappy: "\x82SNAPPY\0", its version and the lowest version that can read it.
const XERIAL: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER: usize = 16;

/// The records of a batch of this codec (gzip 1, snappy 2, lz4 3, zstd 4); `None` if they cannot be unpacked.
pub(super) fn unpack(codec: i16, packed: &[u8]) -> Option<Vec<u8>> {
    match codec {
        1 => read_all(flate2::read::MultiGzDecoder::new(packed)),
        2 if packed.starts_with(XERIAL) => unpack_xerial(packed.get(XERIAL_HEADER..)?),
        2 => unpack_snappy(packed),
        3 => read_all(lz4_flex::frame::FrameDecoder::new(packed)),
        4 => read_all(ruzstd::decoding::StreamingDecoder::new(packed).ok()?),
        _ => None,
    }
}

/// Packs records with a codec again; `None` where that is not worth a packer of our own (zstd).
pub(super) fn pack(codec: i16, records: &[u8]) -> Option<Vec<u8>> {
    match codec {
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
            encoder.write_all(records).ok()?;
            encoder.finish().ok()
        }
        2 => snap::raw::Encoder::new().compress_vec(records).ok(),
        3 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(vec![]);
            encoder.write_all(records).ok()?;
            encoder.finish().ok()
        }
        _ => None,
    }
}

fn read_all(from: impl Read) -> Option<Vec<u8>> {
    let mut unpacked = vec![];
    let read = from.take(UNPACKED_MAX + 1).read_to_end(&mut unpacked).ok()?;
    (read as u64 <= UNPACKED_MAX).then_some(unpacked)
}

fn unpack_snappy(packed: &[u8]) -> Option<Vec<u8>> {
    let fits = snap::raw::decompress_len(packed).is_ok_and(|length| length as u64 <= UNPACKED_MAX);
    fits.then(|| snap::raw::Decoder::new().decompress_vec(packed).ok())?
}

/// Blocks of snappy, each with its length in front.
fn unpack_xerial(mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut unpacked = vec![];
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        unpacked.extend(unpack_snappy(rest.get(..length)?)?);
        packed = &rest[length..];
        if unpacked.len() as u64 > UNPACKED_MAX {
            return None;
        }
    }
    packed.is_empty().then_some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"words words words words and words";

    fn packed(codec: i16) -> Vec<u8> {
        pack(codec, TEXT)
            .unwrap_or_else(|| ruzstd::encoding::compress_to_vec(TEXT, ruzstd::encoding::CompressionLevel::Fastest))
    }

    #[test]
    fn every_codec_of_kafka_is_unpacked() {
        for codec in 1..=4 {
            assert_eq!(unpack(codec, &packed(codec)).as_deref(), Some(TEXT), "codec {codec}");
        }
        assert_eq!(unpack(5, TEXT), None);
    }

    #[test]
    fn snappy_in_the_frames_of_the_java_client_is_unpacked() {
        let mut framed = [XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        for part in TEXT.chunks(20) {
            let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
            framed.extend(u32::try_from(block.len()).unwrap().to_be_bytes());
            framed.extend(block);
        }
        assert_eq!(unpack(2, &framed).as_deref(), Some(TEXT));
        assert_eq!(unpack(2, &framed[..framed.len() - 1]), None);
    }

    #[test]
    fn what_is_not_packed_is_not_unpacked() {
        for codec in 1..=4 {
            assert_eq!(unpack(codec, b"\xff\xff\xff\xff\xff\xff\xff\xff"), None, "codec {codec}");
        }
    }
}
