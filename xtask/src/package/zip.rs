//! Writes a zip archive, which is what a wheel is: local headers with deflated content, then the central
//! directory. No encryption, no 64-bit sizes, one fixed time, so that the same content gives the same bytes.

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write as _;

/// 1980-01-01, the first day that the format knows.
const DATE: u16 = 1 << 5 | 1;
const DEFLATE: u16 = 8;
/// Version 2.0 of the format, made on Unix.
const NEEDED: u16 = 20;
const MADE_BY: u16 = 3 << 8 | NEEDED;
const IS_FILE: u32 = 0o100_000;

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    files: u16,
}

impl Zip {
    /// Adds a file with its permissions.
    pub(super) fn add(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content)?;
        let packed = encoder.finish()?;
        let offset = small(self.bytes.len())?;
        // What stands in both headers.
        let mut shared = Vec::new();
        put(&mut shared, &[NEEDED, 0, DEFLATE, 0, DATE]);
        shared.extend(crc32fast::hash(content).to_le_bytes());
        shared.extend(small(packed.len())?.to_le_bytes());
        shared.extend(small(content.len())?.to_le_bytes());
        put(&mut shared, &[u16::try_from(name.len())?, 0]);
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&shared);
        self.bytes.extend(name.bytes());
        self.bytes.extend(packed);
        self.directory.extend(b"PK\x01\x02");
        put(&mut self.directory, &[MADE_BY]);
        self.directory.extend(&shared);
        // No comment, first disk, binary.
        put(&mut self.directory, &[0, 0, 0]);
        self.directory.extend(((IS_FILE | mode) << 16).to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.bytes());
        self.files += 1;
        Ok(())
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let (start, length) = (small(self.bytes.len())?, small(self.directory.len())?);
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06");
        put(&mut self.bytes, &[0, 0, self.files, self.files]);
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(start.to_le_bytes());
        put(&mut self.bytes, &[0]);
        Ok(self.bytes)
    }
}

fn small(length: usize) -> Result<u32> {
    u32::try_from(length).context("the archive is larger than 4 GiB")
}

fn put(bytes: &mut Vec<u8>, numbers: &[u16]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_archive_is_read_by_pythons_own_module() {
        let mut zip = Zip::default();
        zip.add("a/program", &b"content ".repeat(1000), 0o755).unwrap();
        zip.add("empty", b"", 0o644).unwrap();
        let file = std::env::temp_dir().join(format!("orrery-zip-{}.zip", std::process::id()));
        std::fs::write(&file, zip.finish().unwrap()).unwrap();
        let script = "import sys, zipfile\n\
            z = zipfile.ZipFile(sys.argv[1])\n\
            assert z.testzip() is None\n\
            print([(i.filename, i.file_size, oct(i.external_attr >> 16)) for i in z.infolist()])";
        let output = Command::new("python3").args(["-c", script]).arg(&file).output();
        std::fs::remove_file(&file).unwrap();
        let Ok(output) = output else { return };
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.trim(), "[('a/program', 8000, '0o100755'), ('empty', 0, '0o100644')]");
    }
}
