package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

// A request is an operation (one byte), the length of a key and the length of a body (32 bits
// each, little-endian), the key and the body. The body is the value of a put and the limit (64
// bits) of a scan. An answer is a status (one byte), the length of a body (32 bits) and the body. A
// scan is answered by any number of parts and one more answer; a part holds pairs, each as the
// length of the key, the length of the value, the key and the value.
const (
	opPut      = 'P'
	opGet      = 'G'
	opDelete   = 'D'
	opScan     = 'S'
	opIdle     = 'I' // answers at once
	opSettle   = 'W'
	opDescribe = 'O'
	opCount    = 'C'
	opClose    = 'Q'
)

const (
	statusDone   = 0
	statusAbsent = 1
	statusFailed = 2
	statusPart   = 3
)

const (
	headerLen = 9
	// Bytes of a part from which it is sent.
	partLen = 1 << 20
	// Buffers of a connection: a value of 64 KiB passes in one piece.
	bufferLen = 80 << 10
)

// server answers the requests of one connection, one after another.
type server struct {
	store      *store
	connection net.Conn
	reader     *bufio.Reader
	writer     *bufio.Writer
	request    []byte
	part       []byte
}

func newServer(store *store, connection net.Conn) *server {
	return &server{
		store:      store,
		connection: connection,
		reader:     bufio.NewReaderSize(connection, bufferLen),
		writer:     bufio.NewWriterSize(connection, bufferLen),
	}
}

// serve ends when the other side hangs up.
func (s *server) serve() {
	defer s.connection.Close()
	for {
		op, key, body, err := s.receive()
		if err != nil {
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "badger-peer: a request broke off:", err)
			}
			return
		}
		s.answer(op, key, body)
		if s.writer.Flush() != nil {
			return
		}
	}
}

// receive reads a request; key and body are good until the next one.
func (s *server) receive() (op byte, key, body []byte, err error) {
	var header [headerLen]byte
	if _, err = io.ReadFull(s.reader, header[:]); err != nil {
		return
	}
	keyLen := int(binary.LittleEndian.Uint32(header[1:]))
	whole := keyLen + int(binary.LittleEndian.Uint32(header[5:]))
	if cap(s.request) < whole {
		s.request = make([]byte, whole)
	}
	s.request = s.request[:whole]
	_, err = io.ReadFull(s.reader, s.request)
	return header[0], s.request[:keyLen], s.request[keyLen:], err
}

func (s *server) answer(op byte, key, body []byte) {
	switch op {
	case opPut:
		s.report(s.store.put(key, body))
	case opGet:
		found, err := s.store.get(key, func(value []byte) { s.send(statusDone, value) })
		if err != nil {
			s.report(err)
		} else if !found {
			s.send(statusAbsent, nil)
		}
	case opDelete:
		s.report(s.store.delete(key))
	case opScan:
		s.scan(key, binary.LittleEndian.Uint64(body))
	case opIdle:
		s.report(nil)
	case opSettle:
		s.report(s.store.settle())
	case opDescribe:
		s.send(statusDone, []byte(s.store.describe()))
	case opCount:
		s.send(statusDone, []byte(s.store.count()))
	case opClose:
		s.report(s.store.close())
	default:
		s.report(fmt.Errorf("no operation has the number %d", op))
	}
}

func (s *server) scan(from []byte, limit uint64) {
	s.part = s.part[:0]
	err := s.store.scan(from, limit, func(key, value []byte) {
		s.part = binary.LittleEndian.AppendUint32(s.part, uint32(len(key)))
		s.part = binary.LittleEndian.AppendUint32(s.part, uint32(len(value)))
		s.part = append(append(s.part, key...), value...)
		if len(s.part) >= partLen {
			s.send(statusPart, s.part)
			s.part = s.part[:0]
		}
	})
	if err == nil && len(s.part) > 0 {
		s.send(statusPart, s.part)
	}
	s.report(err)
}

// report answers with an error, or without one.
func (s *server) report(err error) {
	if err != nil {
		s.send(statusFailed, []byte(err.Error()))
		return
	}
	s.send(statusDone, nil)
}

// send leaves errors to the flush that follows.
func (s *server) send(status byte, body []byte) {
	var header [5]byte
	header[0] = status
	binary.LittleEndian.PutUint32(header[1:], uint32(len(body)))
	_, _ = s.writer.Write(header[:])
	_, _ = s.writer.Write(body)
}
