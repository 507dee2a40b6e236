//! A file for reading: it is opened at its first read and may be closed between reads.
//!
//! The handle keeps the directory, the name and the file's identity. If another file has the name
//! when it is reopened, the read fails. So a removed or renamed file can no longer be read through
//! handles that were opened before; handles for writing stay open ([`super::file`]).

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::advice;
use super::dir::{Dir, Which, which};
use super::file::{COUNTED_BLOCK, identity_of};
use super::open_files::Seat;
use crate::api::{Access, File};
use crate::mapping::Mapping;
use crate::name::Name;

/// A handle for reading.
pub(super) struct ReadFile {
    dir: Arc<Dir>,
    name: Name,
    which: Which,
    access: Access,
    seat: Arc<Seat>,
}

impl ReadFile {
    /// A handle of file `name` of `dir`, which must exist.
    pub(super) fn new(dir: Arc<Dir>, name: Name, access: Access) -> io::Result<Self> {
        let stat = dir.stat(&name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Errno::LOOP.into()),
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        Ok(Self { dir, name, which: which(&stat), access, seat: Seat::new() })
    }

    /// Calls `call` with the open file.
    #[inline]
    fn with<T>(&self, call: impl FnOnce(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match &**self.seat.borrow() {
            Some(file) => call(file),
            None => call(self.open()?.as_ref().as_ref().expect("it was opened")),
        }
    }

    #[cold]
    fn open(&self) -> io::Result<Arc<Option<fs::File>>> {
        self.seat.take(|| {
            let file = self.dir.open_file(&self.name, OFlags::RDONLY)?;
            self.check(&rustix::fs::fstat(&file)?)?;
            advice::begin(&file, self.access);
            Ok(file)
        })
    }

    /// Fails if `stat` describes another file.
    fn check(&self, stat: &Stat) -> io::Result<()> {
        if which(stat) == self.which {
            return Ok(());
        }
        let message = format!(
            "{} is not the file any more that was opened under this name; something outside the \
             database has replaced it",
            self.name
        );
        Err(io::Error::other(message))
    }

    /// The metadata of the file, without opening it.
    fn stat(&self) -> io::Result<Stat> {
        if let Some(file) = &**self.seat.borrow() {
            return Ok(rustix::fs::fstat(file)?);
        }
        let stat = self.dir.stat(&self.name)?;
        self.check(&stat)?;
        Ok(stat)
    }
}

impl Drop for ReadFile {
    fn drop(&mut self) {
        self.seat.leave();
    }
}

impl File for ReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| file.read_at(buf, offset))
    }

    /// A file that is closed would have to be opened.
    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match &**self.seat.borrow() {
            Some(file) => advice::read_resident(file, buf, offset),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.with(fs::File::sync_data)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { Err(Errno::BADF.into()) }
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Err(Errno::INVAL.into())
    }

    fn punch(&self, _offset: u64, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { Err(Errno::BADF.into()) }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_size as u64)
    }

    fn space(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_blocks as u64 * COUNTED_BLOCK)
    }

    fn is_copied(&self) -> io::Result<bool> {
        Ok(self.stat()?.st_nlink > 1)
    }

    fn identity(&self) -> io::Result<u64> {
        self.with(|file| Ok(identity_of(file)))
    }

    fn map(&self, _len: usize) -> io::Result<Option<Mapping>> {
        Ok(None)
    }

    fn extend_mapped(&self, _len: u64) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn alignment(&self) -> usize {
        1
    }

    fn will_need(&self, offset: u64, len: usize) {
        // Refused advice only costs speed.
        let _ = self.with(|file| {
            advice::will_need(file, offset, len);
            Ok(())
        });
    }

    fn is_in_memory(&self, offset: u64) -> bool {
        self.with(|file| Ok(advice::is_in_memory(file, offset))).unwrap_or(false)
    }

    fn wont_need(&self, offset: u64, len: usize) {
        let _ = self.with(|file| {
            advice::wont_need(file, offset, len);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::api::read_exact_at;
    use crate::name::FileKind;

    /// A file that holds "first", and a handle for reading it.
    fn file(path: &std::path::Path) -> (std::path::PathBuf, ReadFile) {
        let name = Name::numbered(FileKind::Table, FileNumber(1));
        fs::write(path.join(name.to_string()), "first").unwrap();
        let dir = Arc::new(Dir::open(path, false).unwrap());
        (path.join(name.to_string()), ReadFile::new(dir, name, Access::Random).unwrap())
    }

    fn read(file: &ReadFile) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 5];
        read_exact_at(file, &mut bytes, 0).map(|()| bytes)
    }

    fn is_open(file: &ReadFile) -> bool {
        file.seat.borrow().is_some()
    }

    #[test]
    fn a_file_is_opened_by_its_first_read_and_again_after_it_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (_, file) = file(dir.path());
        assert_eq!((file.len().unwrap(), is_open(&file)), (5, false));
        for _ in 0..2 {
            assert_eq!(read(&file).unwrap(), b"first");
            assert!(is_open(&file));
            file.seat.leave();
        }
    }

    #[test]
    fn another_file_under_the_name_is_an_error_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = file(dir.path());
        read(&file).unwrap();
        let other = path.with_extension("other");
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(read(&file).unwrap(), b"first", "it is still open");
        file.seat.leave();
        for error in [read(&file).unwrap_err(), file.len().unwrap_err()] {
            assert!(error.to_string().contains("000001.tbl is not the file"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
