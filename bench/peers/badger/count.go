package main

import (
	"fmt"
	"strings"
)

// count returns lines of name and number, apart by a tab: the levels. What this process uses the
// benchmark counts with its own.
func (s *store) count() string {
	var text strings.Builder
	line := func(name string, number any) { fmt.Fprintf(&text, "%s\t%v\n", name, number) }
	var tables, stale int64
	for _, level := range s.db.Levels() {
		line(fmt.Sprint("files_at_level_", level.Level), level.NumTables)
		tables += level.Size
		stale += level.StaleDatSize
	}
	line("table_file_bytes", tables)
	line("stale_table_bytes", stale)
	return text.String()
}
