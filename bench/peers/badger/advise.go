package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How often new maps are looked for.
const adviseInterval = time.Second

// Badger maps its tables and value log files and has no option for the way they are read. A fault
// in a map fetches the disk's whole read-ahead window, which for data larger than memory is most of
// all I/O; the kernel can be told not to. The advice is about addresses, so it needs no help from
// Badger, and it changes no contents: a map that has gone meanwhile cannot be harmed by it.

// adviseNowAndThen tells the kernel about the maps of files in directory until stop is closed.
func adviseNowAndThen(directory string, stop <-chan struct{}) {
	if absolute, err := filepath.EvalSymlinks(directory); err == nil {
		directory = absolute
	}
	if absolute, err := filepath.Abs(directory); err == nil {
		directory = absolute
	}
	ticker := time.NewTicker(adviseInterval)
	defer ticker.Stop()
	advised := map[string]bool{}
	for {
		advised = advise(directory, advised)
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// advise tells the kernel about the maps that are not in advised; it returns those there are now.
func advise(directory string, advised map[string]bool) map[string]bool {
	now := map[string]bool{}
	text, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.Contains(line, directory+"/") || !isTableOrValueLog(line) {
			continue
		}
		now[line] = true
		if !advised[line] {
			adviseRandom(strings.Fields(line)[0])
		}
	}
	return now
}

func isTableOrValueLog(path string) bool {
	return strings.HasSuffix(path, ".sst") || strings.HasSuffix(path, ".vlog")
}

// adviseRandom takes a range of addresses as the kernel prints it. If it is refused, reads are as
// they were.
func adviseRandom(addresses string) {
	first, last, _ := strings.Cut(addresses, "-")
	start, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return
	}
	end, err := strconv.ParseUint(last, 16, 64)
	if err != nil {
		return
	}
	length := uintptr(end - start)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(start), length, syscall.MADV_RANDOM)
}
