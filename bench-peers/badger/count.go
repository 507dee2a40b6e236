package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// count returns lines of name and number, apart by a tab: the levels, and what this process used,
// which the benchmark cannot see from where it is.
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
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		line("process_cpu_user_seconds", time.Duration(usage.Utime.Nano()).Seconds())
		line("process_cpu_system_seconds", time.Duration(usage.Stime.Nano()).Seconds())
		line("process_peak_resident_bytes", usage.Maxrss*1024)
	}
	io, _ := os.ReadFile("/proc/self/io")
	for _, field := range strings.Split(string(io), "\n") {
		switch name, number, _ := strings.Cut(field, ": "); name {
		case "rchar", "wchar", "read_bytes", "write_bytes":
			line("process_io_"+name, number)
		}
	}
	return text.String()
}
