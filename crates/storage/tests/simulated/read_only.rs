//! Over a storage that is only read, the layer that keeps changes answers as a storage that is
//! changed.

use std::io;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{
    Access, File, FileKind, LockMode, Mode, Name, ReadOnly, RemoveMode, Storage,
};
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op, Rule};
use cleavedb_storage_sim::sim::{Image, Rng, Sim};

fn log(number: u64) -> Name {
    Name::numbered(FileKind::Log, FileNumber(number))
}

/// A disk with some files, which fails every call that changes it.
fn refusing(image: &Image) -> (Sim, Arc<Faulty>) {
    let sim = Sim::from_image(image.clone());
    let faulty = Faulty::over(&sim);
    for op in Op::CHANGING {
        faulty.fail_matching(Rule::op(op), Fault::Io);
    }
    (sim, Arc::new(faulty))
}

fn image() -> Image {
    let mut image = Image::default();
    let mut rng = Rng::new(1);
    for (number, len) in [(0, 0), (1, 3 * BLOCK + 7), (2, BLOCK)] {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        image.write(log(number), &bytes);
    }
    image
}

/// An answer, with an error by its number.
fn told<T: std::fmt::Debug>(answer: io::Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(e) => format!("{:?} {:?}", e.kind(), e.raw_os_error()),
    }
}

/// Random calls on four names, three of which exist; all answers in order.
fn script(storage: &dyn Storage, seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut files: Vec<(Name, Mode, Arc<dyn File>)> = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..300 {
        let (name, other) = (log(rng.below(4)), log(rng.below(4)));
        let offset = rng.below(5 * BLOCK as u64);
        let index = rng.index(files.len().max(1));
        let what = rng.below(12);
        let mut bytes = vec![0; rng.index(2 * BLOCK)];
        let answer = match (what, files.get(index).map(|(_, _, file)| file)) {
            (0 | 1, _) | (2.., None) => {
                let mode = [Mode::Read, Mode::ReadWrite, Mode::CreateNew][rng.index(3)];
                let access = [Access::Random, Access::Sequential][rng.index(2)];
                told(storage.open(&name, mode, access).map(|file| files.push((name, mode, file))))
            }
            (2, _) => told(storage.rename(&name, &other)),
            (3, _) => told(storage.remove(&name, RemoveMode::Paced)),
            (4, _) => told(storage.list().map(|mut names| {
                names.sort_unstable();
                names
            })),
            (5, _) => told(storage.sync_dir()),
            (6, Some(file)) => told(file.truncate(offset)),
            (7, Some(file)) => told(file.len()) + &told(file.sync()),
            (8, Some(file)) => told(file.allocate(offset)),
            (9, Some(file)) => {
                rng.fill(&mut bytes);
                told(file.write_at(&bytes, offset))
            }
            (_, Some(file)) => told(file.read_at(&mut bytes, offset)) + &format!("{bytes:?}"),
        };
        answers.push(format!("{what}: {answer}"));
        // A handle for reading need not find a file any more that was removed or renamed.
        let lost = match what {
            2 => vec![name, other],
            3 => vec![name],
            _ => Vec::new(),
        };
        files.retain(|(of, mode, _)| *mode != Mode::Read || !lost.contains(of));
    }
    answers
}

#[test]
fn changes_are_seen_above_and_not_made_below() {
    let image = image();
    for seed in 0..60 {
        let changed = Sim::from_image(image.clone());
        changed.set_write_once(false);
        let (sim, faulty) = refusing(&image);
        let layer = ReadOnly::new(faulty.clone());
        let (plain, layered) = (script(&changed, seed), script(&layer, seed));
        for (i, (plain, layered)) in plain.iter().zip(&layered).enumerate() {
            assert_eq!(plain, layered, "answer {i}, seed {seed}");
        }
        assert_eq!((sim.image().hash(), sim.history_len()), (image.hash(), 0), "seed {seed}");
        let changing = faulty.trace().into_iter().find(|call| Op::CHANGING.contains(&call.op));
        assert_eq!(changing, None, "seed {seed}");
    }
}

/// A database is opened beside a writer that closes: what was looked at before the lock was taken
/// may have been replaced.
#[test]
fn a_file_that_was_not_changed_here_is_read_as_it_is_now() {
    let sim = Sim::from_image(image());
    let layer = ReadOnly::new(Arc::new(sim.clone()));
    let read = |len| {
        let file = layer.open(&log(2), Mode::Read, Access::Random).unwrap();
        let mut bytes = vec![0; len];
        assert_eq!(file.len().unwrap(), len as u64);
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        bytes
    };
    read(BLOCK);
    let new = sim.open(&log(7), Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*new, &[7; 2 * BLOCK], 0).unwrap();
    sim.rename(&log(7), &log(2)).unwrap();
    assert_eq!(read(2 * BLOCK), [7; 2 * BLOCK]);
    sim.remove(&log(2), RemoveMode::Immediate).unwrap();
    let error = layer.open(&log(2), Mode::Read, Access::Random).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(layer.list().unwrap().len(), 2);
}

#[test]
fn the_lock_is_shared_and_nothing_is_mapped_punched_or_aligned() {
    let (sim, faulty) = refusing(&image());
    let layers = [(); 2].map(|()| ReadOnly::new(faulty.clone()));
    let lock = |storage: &dyn Storage| storage.lock(LockMode::Exclusive);
    drop(lock(&sim).unwrap());
    let locks = layers.each_ref().map(|layer| lock(layer).unwrap());
    assert_eq!(lock(&sim).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(locks);
    let _writer = lock(&sim).unwrap();
    assert_eq!(lock(&layers[0]).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    let storage: &dyn Storage = &layers[0];
    let file = storage.open(&log(1), Mode::ReadWrite, Access::Direct).unwrap();
    assert!(file.map(BLOCK).unwrap().is_none());
    assert_eq!((file.alignment(), file.is_copied().unwrap()), (1, false));
    let before = file.len().unwrap();
    file.punch(0, BLOCK as u64).unwrap();
    assert_eq!(file.len().unwrap(), before);
    file.extend_mapped(8 * BLOCK as u64).unwrap();
    assert_eq!(file.len().unwrap(), 8 * BLOCK as u64);
    let other = layers[1].open(&log(1), Mode::Read, Access::Random).unwrap();
    assert_eq!(other.len().unwrap(), before, "each layer has changes of its own");
    assert_eq!(sim.image().list()[1].1, before);
}
