// PKG_CONFIG_PATH=/usr/local/lib/pkgconfig go run hello.go
package main

// #cgo pkg-config: cleavedb
// #include <cleavedb.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"log"
	"unsafe"
)

func check(err *C.cleavedb_error) {
	if err != nil {
		log.Fatal(C.GoString(C.cleavedb_error_message(err)))
	}
}

// view lends bytes of Go to one call.
func view(bytes []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes))), C.size_t(len(bytes))
}

func main() {
	var err *C.cleavedb_error
	path := C.CString("fruit.db")
	defer C.free(unsafe.Pointer(path))
	db := C.cleavedb_open(path, nil, &err)
	check(err)
	fruit := C.cleavedb_keyspace_open(db, nil, nil, &err)
	check(err)
	key, keyLen := view([]byte("apple"))
	value, valueLen := view([]byte("red"))
	C.cleavedb_put(fruit, key, keyLen, value, valueLen, C.CLEAVEDB_SYNC, &err)
	check(err)
	found := C.cleavedb_get(fruit, key, keyLen, &err)
	check(err)
	var foundLen C.size_t
	data := C.cleavedb_value_data(found, &foundLen)
	fmt.Println("apple:", C.GoStringN(data, C.int(foundLen)))
	C.cleavedb_value_free(found)
	C.cleavedb_keyspace_free(fruit)
	C.cleavedb_close(db, &err)
	check(err)
}
