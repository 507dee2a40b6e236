package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

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

// memoryLimit is the limit of the process' control group (version 1) in bytes, MaxInt64 if there is
// none.
func memoryLimit() int64 {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, mount := range strings.Split(string(mounts), "\n") {
		fields := strings.Fields(mount)
		if len(fields) < 4 || fields[2] != "cgroup" || !hasMemory(fields[3]) {
			continue
		}
		for _, group := range strings.Split(string(groups), "\n") {
			parts := strings.SplitN(group, ":", 3)
			if len(parts) == 3 && hasMemory(parts[1]) {
				return readLimit(filepath.Join(fields[1], parts[2], "memory.limit_in_bytes"))
			}
		}
	}
	return math.MaxInt64
}

func hasMemory(controllers string) bool {
	for _, controller := range strings.Split(controllers, ",") {
		if controller == "memory" {
			return true
		}
	}
	return false
}

func readLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return limit
}
