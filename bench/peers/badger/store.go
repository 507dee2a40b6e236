package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	// What RunValueLogGC's documentation recommends.
	discardRatio = 0.5
	// The documentation shows collection every five minutes; a run may last one.
	gcInterval = 10 * time.Second
	// Looks at the levels while settling, and how many must find nothing.
	lookInterval = 10 * time.Millisecond
	looksIdle    = 20
)

// store is a Badger database and the collection that Badger leaves to its user.
type store struct {
	db        *badger.DB
	options   badger.Options
	limit     int64
	stop      chan struct{}
	collected chan struct{}
}

// openStore opens the database in directory. Values do not compress, and without compression the
// documentation of WithBlockCacheSize advises against a cache; transactions here never conflict.
func openStore(directory string, threshold, limit int64) (*store, error) {
	opts := badger.DefaultOptions(directory).
		WithLogger(nil).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithDetectConflicts(false)
	if threshold > 0 {
		opts = opts.WithValueThreshold(threshold)
	}
	opts = fitMemory(opts, limit)
	db, err := badger.Open(opts)
	if err != nil {
		return nil, err
	}
	s := &store{
		db: db, options: opts, limit: limit, stop: make(chan struct{}), collected: make(chan struct{}),
	}
	go s.collectNowAndThen()
	go adviseNowAndThen(directory, s.stop)
	return s, nil
}

func (s *store) collectNowAndThen() {
	defer close(s.collected)
	ticker := time.NewTicker(gcInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			// An error here is found again by settle, which reports it.
			_ = s.collect()
		}
	}
}

// collect rewrites value log files until none is worth it.
func (s *store) collect() error {
	for {
		err := s.db.RunValueLogGC(discardRatio)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *store) put(key, value []byte) error {
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (s *store) get(key []byte, visit func(value []byte)) (bool, error) {
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		return item.Value(func(value []byte) error {
			visit(value)
			return nil
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *store) delete(key []byte) error {
	return s.db.Update(func(txn *badger.Txn) error { return txn.Delete(key) })
}

func (s *store) scan(from []byte, limit uint64, visit func(key, value []byte)) error {
	return s.db.View(func(txn *badger.Txn) error {
		opts := badger.DefaultIteratorOptions
		opts.PrefetchSize = int(min(uint64(opts.PrefetchSize), max(limit, 1)))
		iterator := txn.NewIterator(opts)
		defer iterator.Close()
		for iterator.Seek(from); limit > 0 && iterator.Valid(); limit-- {
			item := iterator.Item()
			err := item.Value(func(value []byte) error {
				visit(item.Key(), value)
				return nil
			})
			if err != nil {
				return err
			}
			// The step beyond the last record asked for may cost a read: it is not taken.
			if limit > 1 {
				iterator.Next()
			}
		}
		return nil
	})
}

// settle returns when the levels are within their limits and still, and no value log file is worth
// a rewrite. What lies in memtables stays there: Badger flushes them when they are full, or closed.
func (s *store) settle() error {
	for {
		s.waitForCompactions()
		before := s.db.Levels()
		if err := s.collect(); err != nil {
			return err
		}
		if same(before, s.db.Levels()) {
			return nil
		}
	}
}

func (s *store) waitForCompactions() {
	last := s.db.Levels()
	for idle := 0; idle < looksIdle; {
		time.Sleep(lookInterval)
		levels := s.db.Levels()
		if same(last, levels) && withinLimits(levels) {
			idle++
		} else {
			idle = 0
		}
		last = levels
	}
}

func same(a, b []badger.LevelInfo) bool {
	for i := range a {
		if a[i].NumTables != b[i].NumTables || a[i].Size != b[i].Size {
			return false
		}
	}
	return true
}

func withinLimits(levels []badger.LevelInfo) bool {
	for _, level := range levels {
		if level.Score >= 1 {
			return false
		}
	}
	return true
}

// close waits for the collection that may be under way.
func (s *store) close() error {
	close(s.stop)
	<-s.collected
	return s.db.Close()
}

// describe returns lines of name and setting, apart by a tab.
func (s *store) describe() string {
	opts := s.options
	lines := [][2]any{
		{"version", version()},
		{"compression", "none (values do not compress)"},
		{"SyncWrites", fmt.Sprint(opts.SyncWrites, " (mapped log and value log)")},
		{"ValueThreshold", fmt.Sprint(opts.ValueThreshold, " bytes")},
		{"ValueLogFileSize", fmt.Sprint(opts.ValueLogFileSize, " bytes")},
		{"MemTableSize", fmt.Sprint(opts.MemTableSize/mib, " MiB")},
		{"NumMemtables", opts.NumMemtables},
		{"NumLevelZeroTables", fmt.Sprint(opts.NumLevelZeroTables, ", stall at ", opts.NumLevelZeroTablesStall)},
		{"NumCompactors", opts.NumCompactors},
		{"memory", describeMemory(s.limit)},
		{"BlockCacheSize", "0 (as advised without compression)"},
		{"mapped files", "without read-ahead (MADV_RANDOM, set from outside Badger every second)"},
		{"IndexCacheSize", "0 (all indices in memory)"},
		{"BloomFalsePositive", opts.BloomFalsePositive},
		{"DetectConflicts", opts.DetectConflicts},
		{"VerifyValueChecksum", opts.VerifyValueChecksum},
		{"RunValueLogGC", fmt.Sprintf("ratio %v, every %v and when settling", discardRatio, gcInterval)},
		{"transactions", "one for each operation"},
		{"settled", "levels within limits and still for 0.2 s, nothing to collect; memtables stay"},
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%v\t%v\n", line[0], line[1])
	}
	return text.String()
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/dgraph-io/badger/v4" {
			return strings.TrimPrefix(module.Version, "v") + ", " + info.GoVersion
		}
	}
	return "unknown"
}
