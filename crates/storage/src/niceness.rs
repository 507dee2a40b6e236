//! Lower priority of background threads, so that they do not take a processor from threads that
//! calls wait for.

/// Lowers the priority of this thread from now on, by `niceness` (1 to 19). A refusal is ignored.
pub fn stand_back(niceness: i32) {
    // On Linux niceness belongs to the thread; elsewhere to the process, which is not slowed down.
    if cfg!(target_os = "linux") {
        let _ = rustix::process::nice(niceness);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::nice;

    use super::stand_back;

    #[test]
    fn a_thread_stands_back_alone() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let before = nice(0).unwrap();
        let there = std::thread::spawn(|| {
            stand_back(1);
            nice(0).unwrap()
        });
        let most = 19;
        assert_eq!(there.join().unwrap(), (before + 1).min(most));
        assert_eq!(nice(0).unwrap(), before);
    }
}
