/* The C interface of CleaveDB. <leveldb/c.h> is another, with LevelDB's functions, in the same library.

   Rules for callers:
   - Types are opaque. A handle is made by a function here and given back once, to the function named
     *_free, cleavedb_close for a database. NULL is given back without effect; elsewhere it is an error.
   - Any thread may use a handle. Threads may share databases, keyspaces, snapshots and values at the
     same time; a cursor, a batch, a transaction and a reader of changes are for one at a time.
   - Keys and values are a pointer and a length, and may hold any bytes. NULL with length 0 is empty.
     As an end of a range it is no bound. Ranges have their first end, and not the second.
   - cleavedb_error **error: NULL, or a place for an error, which the caller frees. Success leaves it
     as it is; a failure overwrites it, so begin with NULL.
   - Functions that return int return -1 on failure; else 0, or 1 and 0 for yes and no. Those that
     return a pointer return NULL on failure.
   - After cleavedb_close() all that belongs to the database fails with CLEAVEDB_CLOSED, and is still
     given back. The last 1024 databases that were closed say so when they are used or closed again.
   - A callback may call functions here, with other cursors, batches and the like than its caller uses.
   - A child process after fork() gets CLEAVEDB_FORKED from the handles of its parent. */

#ifndef CLEAVEDB_H
#define CLEAVEDB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cleavedb_db cleavedb_db;
typedef struct cleavedb_keyspace cleavedb_keyspace;
typedef struct cleavedb_value cleavedb_value;
typedef struct cleavedb_cursor cleavedb_cursor;
typedef struct cleavedb_snapshot cleavedb_snapshot;
typedef struct cleavedb_batch cleavedb_batch;
typedef struct cleavedb_transaction cleavedb_transaction;
typedef struct cleavedb_changes cleavedb_changes;
typedef struct cleavedb_error cleavedb_error;

/* What a write survives. The default is that of the database: its option durability, else sync. */
enum {
    CLEAVEDB_DEFAULT = 0,
    CLEAVEDB_BUFFERED = 1, /* nothing: it is in memory */
    CLEAVEDB_OS = 2,       /* the death of the process */
    CLEAVEDB_SYNC = 3      /* a loss of power */
};

/* What kind of error it is. Later releases may have more. */
enum {
    CLEAVEDB_OK = 0,
    CLEAVEDB_INVALID_ARGUMENT = 1,
    CLEAVEDB_INVALID_OPTIONS = 2,
    CLEAVEDB_NOT_A_DATABASE = 3,
    CLEAVEDB_MISSING_VOLUME = 4,
    CLEAVEDB_NEWER_FORMAT = 5,
    CLEAVEDB_LAYOUT_MISMATCH = 6,
    CLEAVEDB_ALREADY_EXISTS = 7,
    CLEAVEDB_NO_KEYSPACE = 8,
    CLEAVEDB_LOCKED = 9,
    CLEAVEDB_CORRUPTION = 10,
    CLEAVEDB_IO = 11,
    CLEAVEDB_NO_SPACE = 12,
    CLEAVEDB_POISONED = 13,
    CLEAVEDB_CONFLICT = 14,
    CLEAVEDB_MERGE = 15,
    CLEAVEDB_HELD = 16,
    CLEAVEDB_OUTDATED = 17,
    CLEAVEDB_NOT_RETAINED = 18,
    CLEAVEDB_CLOSED = 19,
    CLEAVEDB_STOPPED = 20,
    CLEAVEDB_READ_ONLY = 21,
    CLEAVEDB_FORKED = 22,
    CLEAVEDB_TOO_MANY_FILES = 23,
    CLEAVEDB_STALLED = 24,
    CLEAVEDB_OTHER = 25
};

/* ---- Errors. Texts are the error's; path and key are NULL if it has none. ---- */

int cleavedb_error_kind(const cleavedb_error *error);
const char *cleavedb_error_message(const cleavedb_error *error);
const char *cleavedb_error_path(const cleavedb_error *error);
const char *cleavedb_error_key(const cleavedb_error *error);
void cleavedb_error_free(cleavedb_error *error);

/* ---- Databases ---- */

/* Opens the database in a directory, which is made if it is missing. `options` is NULL or a text such
   as "preset=hashkv memory_bytes=256MiB durability=os": the names and values of `cleave --with help`,
   and preset. */
cleavedb_db *cleavedb_open(const char *path, const char *options, cleavedb_error **error);
cleavedb_db *cleavedb_open_read_only(const char *path, const char *options, cleavedb_error **error);
int cleavedb_close(cleavedb_db *db, cleavedb_error **error);

/* Removes a database that is not open. */
int cleavedb_destroy(const char *path, cleavedb_error **error);

/* All writes so far survive a loss of power. */
int cleavedb_sync(cleavedb_db *db, cleavedb_error **error);
int cleavedb_flush(cleavedb_db *db, cleavedb_error **error);

/* Compacts the index, and gives back the space of dead values. */
int cleavedb_compact(cleavedb_db *db, cleavedb_error **error);

/* Reads everything; fails with the first damage that it finds. */
int cleavedb_verify(cleavedb_db *db, cleavedb_error **error);

/* Metrics in the text format of Prometheus, for cleavedb_free(). */
char *cleavedb_metrics(cleavedb_db *db, cleavedb_error **error);

/* The durability of writes that ask for CLEAVEDB_DEFAULT. */
int cleavedb_durability(cleavedb_db *db, cleavedb_error **error);

/* Frees a text. */
void cleavedb_free(char *text);

/* ---- Keyspaces: each has keys of its own. ---- */

/* The keyspace of this name, which is made if it is missing; NULL is the default one. `options` is
   NULL or a text such as "ttl=12h min_separated=4KiB compression=lz4": how long values live, from
   which length on they leave the index, and how those that do are compressed. One that is there keeps
   its own. */
cleavedb_keyspace *cleavedb_keyspace_open(cleavedb_db *db, const char *name, const char *options,
                                          cleavedb_error **error);
void cleavedb_keyspace_free(cleavedb_keyspace *keyspace);

/* Removes a keyspace with all its keys. */
int cleavedb_keyspace_drop(cleavedb_db *db, const char *name, cleavedb_error **error);

/* Their names but that of the default one, a line each, for cleavedb_free(). */
char *cleavedb_keyspace_names(cleavedb_db *db, cleavedb_error **error);

/* ---- Reads ---- */

/* The value, without a copy; NULL without an error if the key is not there. */
cleavedb_value *cleavedb_get(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                             cleavedb_error **error);
const char *cleavedb_value_data(const cleavedb_value *value, size_t *len);
void cleavedb_value_free(cleavedb_value *value);

/* Copies as much of the value as there is room for. `len` is the length of all of it. */
int cleavedb_get_into(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                      char *buffer, size_t room, size_t *len, cleavedb_error **error);

/* The values of `count` keys: NULL for those that are not there. */
int cleavedb_get_many(const cleavedb_keyspace *keyspace, size_t count, const char *const *keys,
                      const size_t *lens, cleavedb_value **values, cleavedb_error **error);
int cleavedb_contains(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                      cleavedb_error **error);

/* ---- Writes ---- */

int cleavedb_put(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                 const char *value, size_t value_len, int durability, cleavedb_error **error);

/* The value is gone after so many milliseconds. 0 is the time to live of the keyspace. */
int cleavedb_put_for(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                     const char *value, size_t value_len, uint64_t ttl_millis, int durability,
                     cleavedb_error **error);
int cleavedb_delete(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                    int durability, cleavedb_error **error);
int cleavedb_delete_range(const cleavedb_keyspace *keyspace, const char *from, size_t from_len,
                          const char *to, size_t to_len, int durability, cleavedb_error **error);

/* Changes a value without reading it, by an operator that the database knows: "add", "append" or
   "max". */
int cleavedb_merge(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                   const char *operation, const char *operand, size_t operand_len, int durability,
                   cleavedb_error **error);

/* Adds to a whole number, which is stored as decimal text; a key that is not there counts as 0. A sum
   that an int64_t cannot hold wraps round. */
int cleavedb_add(const cleavedb_keyspace *keyspace, const char *key, size_t key_len, int64_t number,
                 int durability, cleavedb_error **error);

/* 1 if it was done: the key was not there. */
int cleavedb_put_if_absent(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                           const char *value, size_t value_len, int durability,
                           cleavedb_error **error);

/* 1 if it was done: the key had the expected value, or none for NULL. A new value of NULL deletes. */
int cleavedb_compare_and_swap(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                              const char *expected, size_t expected_len, const char *value,
                              size_t value_len, int durability, cleavedb_error **error);

/* ---- Values in pieces, which need not be held whole ---- */

/* Fills a buffer with what follows of a value and returns how many bytes that is: 0 at the end of the
   value, -1 to give the put up. */
typedef ptrdiff_t (*cleavedb_read_piece)(void *state, char *buffer, size_t room);

int cleavedb_put_pieces(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                        cleavedb_read_piece read, void *state, uint64_t ttl_millis, int durability,
                        cleavedb_error **error);

/* Takes what follows of a value, and returns 0 for more, or another number to give the get up. A piece
   may be read until the callback returns. Of a value that was put by cleavedb_put_pieces() it has at
   most 1 MiB; another value may come in one piece. */
typedef int (*cleavedb_take_piece)(void *state, const char *piece, size_t len);

/* Hands out the value of this moment, whatever is written meanwhile: 1 after its end, 0 if the key is
   not there. */
int cleavedb_get_pieces(const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                        cleavedb_take_piece take, void *state, cleavedb_error **error);

/* The `len` bytes from `offset` on, or as many as there are; NULL if the key is not there. */
cleavedb_value *cleavedb_get_piece(const cleavedb_keyspace *keyspace, const char *key,
                                   size_t key_len, uint64_t offset, size_t len,
                                   cleavedb_error **error);

/* ---- Batches: applied as a whole ---- */

cleavedb_batch *cleavedb_batch_new(void);
void cleavedb_batch_free(cleavedb_batch *batch);
void cleavedb_batch_clear(cleavedb_batch *batch);
size_t cleavedb_batch_len(const cleavedb_batch *batch);
int cleavedb_batch_put(cleavedb_batch *batch, const cleavedb_keyspace *keyspace, const char *key,
                       size_t key_len, const char *value, size_t value_len, uint64_t ttl_millis,
                       cleavedb_error **error);
int cleavedb_batch_delete(cleavedb_batch *batch, const cleavedb_keyspace *keyspace,
                          const char *key, size_t key_len, cleavedb_error **error);
int cleavedb_batch_delete_range(cleavedb_batch *batch, const cleavedb_keyspace *keyspace,
                                const char *from, size_t from_len, const char *to, size_t to_len,
                                cleavedb_error **error);
int cleavedb_write(cleavedb_db *db, cleavedb_batch *batch, int durability, cleavedb_error **error);

/* ---- Cursors: at first on no key. Moves return 1 if the cursor is on a key then. ---- */

cleavedb_cursor *cleavedb_cursor_open(const cleavedb_keyspace *keyspace, const char *from,
                                      size_t from_len, const char *to, size_t to_len,
                                      cleavedb_error **error);
void cleavedb_cursor_free(cleavedb_cursor *cursor);
int cleavedb_cursor_next(cleavedb_cursor *cursor, cleavedb_error **error);
int cleavedb_cursor_prev(cleavedb_cursor *cursor, cleavedb_error **error);
int cleavedb_cursor_first(cleavedb_cursor *cursor, cleavedb_error **error);
int cleavedb_cursor_last(cleavedb_cursor *cursor, cleavedb_error **error);

/* To the first key at or after this one; to the last at or before it. */
int cleavedb_cursor_seek(cleavedb_cursor *cursor, const char *key, size_t key_len,
                         cleavedb_error **error);
int cleavedb_cursor_seek_for_prev(cleavedb_cursor *cursor, const char *key, size_t key_len,
                                  cleavedb_error **error);

/* The key may be read until the next call with the cursor, the value until the next move or value. */
const char *cleavedb_cursor_key(cleavedb_cursor *cursor, size_t *len);
const char *cleavedb_cursor_value(cleavedb_cursor *cursor, size_t *len, cleavedb_error **error);

/* ---- Snapshots: the database at one moment ---- */

cleavedb_snapshot *cleavedb_snapshot_take(const cleavedb_keyspace *keyspace,
                                          cleavedb_error **error);

/* The same moment of another keyspace. */
cleavedb_snapshot *cleavedb_snapshot_keyspace(const cleavedb_snapshot *snapshot,
                                              const cleavedb_keyspace *keyspace,
                                              cleavedb_error **error);

/* The number of the last write that it sees. */
uint64_t cleavedb_snapshot_seq(const cleavedb_snapshot *snapshot);
void cleavedb_snapshot_free(cleavedb_snapshot *snapshot);
cleavedb_value *cleavedb_snapshot_get(const cleavedb_snapshot *snapshot, const char *key,
                                      size_t key_len, cleavedb_error **error);
cleavedb_cursor *cleavedb_snapshot_cursor(const cleavedb_snapshot *snapshot, const char *from,
                                          size_t from_len, const char *to, size_t to_len,
                                          cleavedb_error **error);

/* ---- Transactions: serializable. A commit that fails with CLEAVEDB_CONFLICT has written nothing;
   begin another one and do it all again. Freed without a commit, one is given up. ---- */

cleavedb_transaction *cleavedb_transaction_begin(cleavedb_db *db, cleavedb_error **error);
cleavedb_value *cleavedb_transaction_get(cleavedb_transaction *transaction,
                                         const cleavedb_keyspace *keyspace, const char *key,
                                         size_t key_len, cleavedb_error **error);
int cleavedb_transaction_put(cleavedb_transaction *transaction, const cleavedb_keyspace *keyspace,
                             const char *key, size_t key_len, const char *value, size_t value_len,
                             cleavedb_error **error);
int cleavedb_transaction_delete(cleavedb_transaction *transaction,
                                const cleavedb_keyspace *keyspace, const char *key, size_t key_len,
                                cleavedb_error **error);
int cleavedb_transaction_commit(cleavedb_transaction *transaction, int durability,
                                cleavedb_error **error);
void cleavedb_transaction_free(cleavedb_transaction *transaction);

/* ---- Changes: what was committed, in all keyspaces, batch by batch, for replicas and caches. They are
   kept if the database was opened with the option change_retention_bytes. ---- */

enum {
    CLEAVEDB_CHANGE_PUT = 1,              /* key, value; at times what merges have made of one */
    CLEAVEDB_CHANGE_PUT_PIECES = 2,       /* key, value_len: a long value, which a get finds */
    CLEAVEDB_CHANGE_DELETE = 3,           /* key */
    CLEAVEDB_CHANGE_DELETE_RANGE = 4,     /* key, the first; to, the one behind the last, or NULL */
    CLEAVEDB_CHANGE_MERGE = 5,            /* key, operation; value, the operand */
    CLEAVEDB_CHANGE_KEYSPACE_CREATED = 6, /* or its options have changed */
    CLEAVEDB_CHANGE_KEYSPACE_DROPPED = 7,
    CLEAVEDB_CHANGE_LOADED = 8 /* key and to, the first and the last of a bulk load, to be scanned */
};

/* What a kind does not have is NULL and 0. Texts end in a NUL. All may be read until the next call of
   cleavedb_changes_next(). */
typedef struct cleavedb_change {
    uint64_t seq; /* the number of the write */
    int kind;     /* later releases may have more */
    const char *keyspace;
    const char *key;
    size_t key_len;
    const char *to;
    size_t to_len;
    const char *value;
    size_t value_len;
    const char *operation;
    uint64_t expires_millis; /* since 1970; 0 for never */
} cleavedb_change;

/* The changes from the number `from` on; CLEAVEDB_NOT_RETAINED if they are not all kept. What a copy
   must have before is what a snapshot sees, and `from` is 1 behind its number. A reader of durable
   changes gets none that a loss of power could undo. It is freed before the database is opened again. */
cleavedb_changes *cleavedb_changes_open(cleavedb_db *db, uint64_t from, int durable_only,
                                        cleavedb_error **error);
void cleavedb_changes_free(cleavedb_changes *changes);

/* Goes to the next batch, and waits for one so long: 1, or 0 if there is none yet. */
int cleavedb_changes_next(cleavedb_changes *changes, uint64_t wait_millis, cleavedb_error **error);

/* Fills in the change `at`, from 0, of the batch: 1, or 0 if it has fewer. */
int cleavedb_changes_at(const cleavedb_changes *changes, size_t at, cleavedb_change *change);

/* Where a later reader goes on: behind the batch. */
uint64_t cleavedb_changes_next_seq(const cleavedb_changes *changes);

/* ---- Copies ---- */

/* A copy that can be opened, of files that are shared with the database where the disk allows it. */
int cleavedb_checkpoint(cleavedb_db *db, const char *path, cleavedb_error **error);

/* Adds a backup to those in a directory: only what the others do not have. */
int cleavedb_backup(cleavedb_db *db, const char *backups, cleavedb_error **error);

/* Makes a database of the backup of this number; 0 for the newest. */
int cleavedb_restore(const char *backups, uint64_t number, const char *path, cleavedb_error **error);

/* ---- Keys of several parts. Encoded parts, one behind the other, order as the parts do. Each call
   copies as much as there is room for and returns the length: at most 9 bytes. ---- */

size_t cleavedb_encode_u64(uint64_t number, char *buffer, size_t room);
size_t cleavedb_encode_i64(int64_t number, char *buffer, size_t room);
size_t cleavedb_encode_double(double number, char *buffer, size_t room);

#ifdef __cplusplus
}
#endif

#endif
