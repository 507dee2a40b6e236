package main

import (
	"fmt"
	"runtime/debug"

	"github.com/dgraph-io/badger/v4"
)

const (
	mib = 1 << 20
	// Below this limit the defaults do not fit: five memtables of 64 MiB, each twice in memory, as
	// a list and as a mapped log.
	smallMemory = 1024 * mib
	// What Go's heap may take of a small limit; the rest is for maps and the harness.
	heapShare = 0.5
)

// fitMemory makes the options fit a small limit. The documentation ("Memory usage") names the
// options: memtables and with them tables of level 0, compactors, and the size of value log files.
// For 200 MB of memory an author advised one memtable and one table of level 0, tables of 4 MB and a
// stall at two (issue 545 of Badger, 2018); small limits here are larger, and so are these.
func fitMemory(opts badger.Options, limit int64) badger.Options {
	if limit >= smallMemory {
		return opts
	}
	debug.SetMemoryLimit(int64(heapShare * float64(limit)))
	return opts.
		WithMemTableSize(16 * mib).
		WithNumMemtables(2).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(6).
		WithNumCompactors(2).
		WithValueLogFileSize(64 * mib)
}

// describeMemory says whether the options were made to fit.
func describeMemory(limit int64) string {
	if limit >= smallMemory {
		return "Badger's defaults, heap without limit (1 GiB or more)"
	}
	const words = "made for a limit of %d MiB: fewer and smaller memtables and files, GOMEMLIMIT %d MiB"
	return fmt.Sprintf(words, limit/mib, int64(heapShare*float64(limit))/mib)
}
