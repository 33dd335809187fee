//! A backup as a file: a tar archive, compressed with Zstandard, that ends with the SHA-256 of every
//! file in the form of `sha256sum`. Standard tools read it; an archive that was cut off has no such
//! end, and so is never taken for a whole one.

use std::io::{Read, Write};
use std::path::{Component, Path};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::exit::{Exit, Failure};

/// The last entry.
const SUMS: &str = "SHA256SUMS";
/// Tables are compressed already; a high level would cost time and gain little.
const LEVEL: i32 = 3;
/// The list of sums is short; a longer one is none.
const SUMS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Writes an archive.
pub(crate) struct ArchiveWriter<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    sums: String,
    time_s: u64,
}

impl<W: Write> ArchiveWriter<W> {
    pub(crate) fn new(out: W, time_s: u64) -> Result<Self> {
        let mut encoder = zstd::Encoder::new(out, LEVEL).context("cannot compress")?;
        encoder.include_checksum(true).context("cannot compress")?;
        Ok(Self { tar: tar::Builder::new(encoder), sums: String::new(), time_s })
    }

    /// Adds a file of a known size.
    pub(crate) fn file(&mut self, name: &str, size: u64, content: impl Read) -> Result<()> {
        let mut content = Summing { input: content, sum: Sha256::new(), count: 0 };
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o600);
        header.set_mtime(self.time_s);
        self.tar
            .append_data(&mut header, name, (&mut content).take(size))
            .with_context(|| format!("cannot add {name} to the archive"))?;
        anyhow::ensure!(content.count == size, "{name} is shorter than it should be");
        self.sums.extend([content.hex().as_str(), "  ", name, "\n"]);
        Ok(())
    }

    /// Ends the archive with its sums.
    pub(crate) fn end(mut self) -> Result<W> {
        let sums = std::mem::take(&mut self.sums).into_bytes();
        self.file(SUMS, sums.len() as u64, &sums[..])?;
        let encoder = self.tar.into_inner().context("cannot end the archive")?;
        encoder.finish().context("cannot end the archive")
    }
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Reads a whole archive and checks it; `each` gets the name of every file and where to put it.
/// Nothing of it may be used before this has returned.
pub(crate) fn read(
    input: impl Read,
    each: &mut dyn FnMut(&str, &mut dyn Read) -> Result<()>,
) -> Result<Contents> {
    let damaged = |what: String| {
        Failure::new(Exit::Damaged, format!("the backup is damaged: {what}; use another one"))
    };
    let decoder =
        zstd::Decoder::new(input).map_err(|e| damaged(format!("it is no backup ({e})")))?;
    let mut archive = tar::Archive::new(decoder);
    let entries = archive.entries().map_err(|e| damaged(e.to_string()))?;
    let (mut found, mut sums, mut contents) = (String::new(), None, Contents::default());
    for entry in entries {
        let mut entry = entry.map_err(|e| damaged(e.to_string()))?;
        let path = entry.path().map_err(|e| damaged(e.to_string()))?;
        let name = path.to_str().unwrap_or_default().to_owned();
        if !is_inner(Path::new(&name)) || sums.is_some() {
            return Err(damaged(format!("it holds '{name}', which no backup has")).into());
        }
        if name == SUMS {
            let mut text = String::new();
            let read = (&mut entry).take(SUMS_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|e| damaged(e.to_string()))?;
            sums = Some(text);
            continue;
        }
        let mut content = Summing { input: &mut entry, sum: Sha256::new(), count: 0 };
        each(&name, &mut content)?;
        // The checksum covers the rest too, even if the reader did not read it.
        std::io::copy(&mut content, &mut std::io::sink()).map_err(|e| damaged(e.to_string()))?;
        contents.files += 1;
        contents.bytes += content.count;
        found.extend([content.hex().as_str(), "  ", &name, "\n"]);
    }
    // The last bytes are the checksum of the compressed whole.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())
        .map_err(|e| damaged(e.to_string()))?;
    match sums {
        Some(sums) if sums == found => Ok(contents),
        Some(_) => Err(damaged("a file is not the one that was backed up".into()).into()),
        None => Err(damaged("its end is missing".into()).into()),
    }
}

/// Whether a path stays below where it is put.
fn is_inner(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|component| matches!(component, Component::Normal(_)))
}

/// Sums up what is read through it.
struct Summing<R> {
    input: R,
    sum: Sha256,
    count: u64,
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

impl<R> Summing<R> {
    fn hex(&self) -> String {
        hex(&self.sum.clone().finalize())
    }
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.sum.update(&buffer[..read]);
        self.count += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let mut archive = ArchiveWriter::new(Vec::new(), 1).unwrap();
        archive.file("store/FORMAT", 6, &b"format"[..]).unwrap();
        archive.file("store/lsm/1.sst", 100_000, &vec![7; 100_000][..]).unwrap();
        archive.end().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<(Contents, Vec<(String, usize)>)> {
        let mut files = Vec::new();
        let contents = read(bytes, &mut |name, content| {
            let mut data = Vec::new();
            content.read_to_end(&mut data)?;
            files.push((name.to_owned(), data.len()));
            Ok(())
        })?;
        Ok((contents, files))
    }

    #[test]
    fn what_was_written_is_read_and_sums_are_right() {
        let (contents, files) = read_all(&archive()).unwrap();
        assert_eq!(contents, Contents { files: 2, bytes: 100_006 });
        assert_eq!(files, [("store/FORMAT".into(), 6), ("store/lsm/1.sst".into(), 100_000)]);
        // A file is checked even if it was not read.
        assert_eq!(read(&archive()[..], &mut |_, _| Ok(())).unwrap(), contents);
    }

    #[test]
    fn any_cut_and_any_changed_byte_is_found() {
        let whole = archive();
        let intact = read_all(&whole).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            assert!(read_all(&whole[..length]).is_err(), "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            // The frame has a bit that means nothing: then nothing else may differ.
            if let Ok(found) = read_all(&changed) {
                assert_eq!(found, intact, "byte {at} of {}", whole.len());
            }
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_announced_is_no_file() {
        let mut archive = ArchiveWriter::new(Vec::new(), 1).unwrap();
        assert!(archive.file("a", 10, &b"short"[..]).is_err());
    }

    #[test]
    fn no_name_leads_out() {
        for name in ["", "/etc/passwd", "../x", "a/../b", "./a"] {
            assert!(!is_inner(Path::new(name)) || name == "./a", "{name}");
        }
        assert!(is_inner(Path::new("store/lsm/CURRENT")));
    }
}
