//! The bytes of a snapshot: a versioned envelope around the encoded state.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | format, 1 |
//! | 1 | id of the codec that wrote the state |
//! | 4 | version of the state, big-endian |
//! | 1 | number of pending timers |
//! | per timer: 1, n, 8 | length of the name, the name, the deadline in milliseconds, big-endian |
//! | rest | the state, as the codec wrote it |
//!
//! Timers are written in their declaration's order. The header is read when the entry is restored, so that a snapshot this program
//! cannot go on from is refused then; the state is read, and upgraded if an earlier version wrote it, when its key is first used.

use crate::flow::Timer;

/// The format this version writes, and the only one it reads.
pub(crate) const FORMAT: u8 = 1;

/// Writes the header; `timers` are those pending.
pub(crate) fn write_header(out: &mut Vec<u8>, codec: u8, version: u32, timers: &[(Timer, i64)]) {
    out.push(FORMAT);
    out.push(codec);
    out.extend_from_slice(&version.to_be_bytes());
    out.push(timers.len() as u8); // `build()` refuses more than 255 timers, and names longer than 255 bytes
    for (timer, deadline) in timers {
        out.push(timer.name().len() as u8);
        out.extend_from_slice(timer.name().as_bytes());
        out.extend_from_slice(&deadline.to_be_bytes());
    }
}

/// A header as it was read, and the payload behind it.
pub(crate) struct Header<'b> {
    pub(crate) codec: u8,
    pub(crate) version: u32,
    timers: u8,
    rest: &'b [u8],
}

/// Why an envelope cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadEnvelope {
    Truncated,
    Format(u8),
}

impl<'b> Header<'b> {
    pub(crate) fn read(bytes: &'b [u8]) -> Result<Self, BadEnvelope> {
        match bytes {
            [FORMAT, codec, v0, v1, v2, v3, timers, rest @ ..] => {
                Ok(Header { codec: *codec, version: u32::from_be_bytes([*v0, *v1, *v2, *v3]), timers: *timers, rest })
            }
            [FORMAT, ..] | [] => Err(BadEnvelope::Truncated),
            [format, ..] => Err(BadEnvelope::Format(*format)),
        }
    }

    /// The next pending timer: its name and its deadline.
    pub(crate) fn next_timer(&mut self) -> Result<Option<(&'b [u8], i64)>, BadEnvelope> {
        if self.timers == 0 {
            return Ok(None);
        }
        self.timers -= 1;
        let (&length, rest) = self.rest.split_first().ok_or(BadEnvelope::Truncated)?;
        let (name, rest) = rest.split_at_checked(usize::from(length)).ok_or(BadEnvelope::Truncated)?;
        let (deadline, rest) = rest.split_first_chunk::<8>().ok_or(BadEnvelope::Truncated)?;
        self.rest = rest;
        Ok(Some((name, i64::from_be_bytes(*deadline))))
    }

    /// The state's bytes, once all timers are read.
    pub(crate) fn payload(self) -> &'b [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_these_bytes() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, 1, 2, &[(Timer::event_time("idle"), 1_000), (Timer::wall_clock("x"), -1)]);
        bytes.extend_from_slice(b"{}");
        assert_eq!(
            bytes,
            b"\x01\x01\x00\x00\x00\x02\x02\x04idle\x00\x00\x00\x00\x00\x00\x03\xe8\x01x\xff\xff\xff\xff\xff\xff\xff\xff{}"
        );
        let mut header = Header::read(&bytes).unwrap();
        assert_eq!((header.codec, header.version), (1, 2));
        assert_eq!(header.next_timer(), Ok(Some((&b"idle"[..], 1_000))));
        assert_eq!(header.next_timer(), Ok(Some((&b"x"[..], -1))));
        assert_eq!(header.next_timer(), Ok(None));
        assert_eq!(header.payload(), b"{}");
    }

    #[test]
    fn an_envelope_that_ends_early_is_noticed_at_every_length() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, 1, 2, &[(Timer::event_time("idle"), 1_000)]);
        for length in 0..bytes.len() {
            let read = Header::read(&bytes[..length]).and_then(|mut header| header.next_timer());
            assert_eq!(read.err(), Some(BadEnvelope::Truncated), "at {length}");
        }
        assert_eq!(Header::read(&[9]).err(), Some(BadEnvelope::Format(9)));
    }
}
