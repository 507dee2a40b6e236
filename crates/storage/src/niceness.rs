//! Threads that stand back: what nobody waits for should not take a processor from what somebody
//! waits for.

/// Lets other threads go before this one from now on, by `niceness` (1 to 19). Refused, it changes
/// nothing.
pub fn stand_back(niceness: i32) {
    // On Linux it is the thread's own; elsewhere it is the process's, which is not ours to slow.
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
