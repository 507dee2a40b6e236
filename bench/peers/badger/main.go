// Badger-peer keeps one Badger database open for a benchmark that runs in another process.
//
// It listens on a Unix socket, says "ready" on standard output and answers requests (wire.go) until
// it is asked to close. When standard input ends first, the benchmark has died: nobody needs the
// data, and the process ends at once.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
)

func main() {
	directory := flag.String("dir", "", "directory of the database")
	socket := flag.String("socket", "", "Unix socket to listen on; @ begins an abstract name")
	threshold := flag.Int64("separate-from", 0,
		"bytes of the smallest value in the value log; 0: Badger's default")
	limit := flag.Int64("memory-limit", math.MaxInt64, "bytes of memory that the options must fit")
	flag.Parse()
	// A Ctrl-C is for the benchmark: this process ends with it.
	signal.Ignore(os.Interrupt)
	if err := run(*directory, *socket, *threshold, *limit); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(directory, socket string, threshold, limit int64) error {
	store, err := openStore(directory, threshold, limit)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go endWithParent()
	fmt.Println("ready")
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go newServer(store, connection).serve()
	}
}

// endWithParent waits until whoever holds the other end of standard input is gone.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
