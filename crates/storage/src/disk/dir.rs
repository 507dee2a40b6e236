//! A directory, held by its descriptor.
//!
//! Every name is looked up in the directory that was opened, also after it was renamed or its old
//! path was reused. Names never follow symbolic links.

use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::open_files::with_room;
use crate::name::{FileKind, Name};

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Identity of a file, whatever its name: device and inode.
pub(super) type Which = (u64, u64);

/// Identity of the file that `stat` describes.
pub(super) fn which(stat: &Stat) -> Which {
    (stat.st_dev, stat.st_ino)
}

/// A directory that is open.
pub(super) struct Dir(fs::File);

impl Dir {
    /// Opens the directory `path`; if it is missing and `create` is set, makes it durably.
    pub(super) fn open(path: &Path, create: bool) -> io::Result<Self> {
        if create {
            create_dir(path)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        Ok(Self(with_room(open)?.into()))
    }

    /// The descriptor of the directory.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Identity of the directory.
    pub(super) fn id(&self) -> io::Result<Which> {
        Ok(which(&rustix::fs::fstat(&self.0)?))
    }

    /// Opens its subdirectory `name`.
    pub(super) fn open_dir(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.0, name, flags, Mode::empty());
        Ok(Self(with_room(open)?.into()))
    }

    /// Makes its subdirectory `name`, which must not exist.
    pub(super) fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(DIR_MODE))?)
    }

    /// Removes its subdirectory `name`, which must be empty.
    pub(super) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens file `name`, as `flags` say.
    pub(super) fn open_file(&self, name: &Name, flags: OFlags) -> io::Result<fs::File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, mode) = (name.to_string(), Mode::from_raw_mode(FILE_MODE));
        let open = || rustix::fs::openat(&self.0, name.as_str(), flags, mode);
        Ok(with_room(open)?.into())
    }

    /// Renames `from` to `to`: a file replaces another one, a directory only an empty one.
    pub(super) fn rename(&self, from: &impl Display, to: &impl Display) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from.to_string(), &self.0, to.to_string())?)
    }

    /// Removes the name `name`.
    pub(super) fn unlink(&self, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name.to_string(), AtFlags::empty())?)
    }

    /// The metadata of file `name`.
    pub(super) fn stat(&self, name: &Name) -> io::Result<Stat> {
        Ok(self.stat_spelled(name.to_string())?)
    }

    fn stat_spelled(&self, name: impl rustix::path::Arg) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Calls `visit` with each entry: name and length of a file of ours, or the spelling of a
    /// foreign one.
    pub(super) fn visit(
        &self,
        mut visit: impl FnMut(Result<(Name, u64), String>),
    ) -> io::Result<()> {
        for entry in with_room(|| rustix::fs::Dir::read_from(&self.0))? {
            let entry = entry?;
            let spelled = entry.file_name();
            if matches!(spelled.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match self.stat_spelled(spelled) {
                Ok(stat) => stat,
                // The file was removed since the directory was read.
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e.into()),
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let spelled = spelled.to_string_lossy().into_owned();
            match Name::parse(&spelled) {
                // The content of a lock file is only for messages; its length does not count as
                // data.
                Some(name) if is_file && name.kind() == FileKind::Lock => visit(Ok((name, 0))),
                Some(name) if is_file => visit(Ok((name, stat.st_size as u64))),
                _ => visit(Err(spelled)),
            }
        }
        Ok(())
    }

    /// Makes creations, renames and removals durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Bytes that may still be written to its file system.
    pub(super) fn free_space(&self) -> io::Result<u64> {
        let fs = rustix::fs::fstatvfs(&self.0)?;
        Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
    }
}

/// Makes `path` durably, if it is missing; its parent must exist.
fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    // The parent of a relative path of one part is the current directory.
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}
