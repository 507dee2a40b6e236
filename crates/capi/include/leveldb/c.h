/* The C interface of LevelDB 1.23 over CleaveDB: the same names, arguments and meanings, so that a
   program written for LevelDB runs with another link line. The data is CleaveDB's own: a directory
   that LevelDB wrote is refused.

   What differs is said at the function. In short:
   - Keys are ordered as their bytes are, and in no other way.
   - max_open_files, block_restart_interval, paranoid_checks, env, info_log, verify_checksums and
     fill_cache are accepted and have no effect: files are opened as needed, and checksums are always
     checked.
   - Snappy means LZ4.

   Rules for callers:
   - Types are opaque; a handle is made by a function here and given back once, to the function that
     ends its life. Any thread may use a handle. Threads may share a database, a snapshot, options
     and, in functions that take it as const, an iterator or a batch.
   - Keys and values are a pointer and a length, and may hold any bytes. NULL with length 0 is empty.
   - char** errptr: *errptr is NULL, or a message that malloc() allocated. Success leaves it as it
     is; a failure frees it and stores a new message, which the caller frees with leveldb_free().
   - uint8_t is 0 for false and anything else for true.
   - A NULL handle is an error, or has no effect where there is no errptr. The last 1024 databases
     that were closed say so when they are used or closed again.
   - A child process after fork() gets errors from the handles of its parent, and opens its own. */

#ifndef CLEAVEDB_LEVELDB_C_H
#define CLEAVEDB_LEVELDB_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- Databases ---- */

/* Opens the database in the directory `name`; NULL and a message if that fails. */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes it. Iterators and snapshots that are left fail from then on, and are still destroyed one by
   one. A second close does nothing. */
void leveldb_close(leveldb_t* db);

void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                 size_t keylen, const char* val, size_t vallen, char** errptr);

/* Deleting a key that is not there is no error. */
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                    size_t keylen, char** errptr);

/* Applies a batch as a whole. Fails if an operation did not fit into the batch. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                   leveldb_writebatch_t* batch, char** errptr);

/* The value, which the caller frees with leveldb_free(), and its length; NULL without an error if
   the key is not there. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                  size_t keylen, size_t* vallen, char** errptr);

/* An iterator over the database as it is now, or as of the snapshot of the options. */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

/* Read options that still name it fail from then on. */
void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* leveldb.stats, leveldb.sstables, leveldb.approximate-memory-usage, or leveldb.num-files-at-levelN
   for N of 0 to 6, as text for leveldb_free(); NULL for any other name. */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* Bytes that the keys from each start (included) to its limit (excluded) take, about: with values,
   and with what is in memory still. */
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len,
                               const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);

/* Compacts the keys of a range, and gives back the space of values that are dead there. NULL is no
   bound. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                           const char* limit_key, size_t limit_key_len);

/* Removes the database in a directory, and the directory if nothing else is in it. */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Saves what can be read of a damaged database into a new one, checks that, and has it take the
   place of the damaged one, which is kept as NAME.damaged. One that is intact stays as it is. */
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators: at first on no key. Next and previous need one that is on a key. ---- */

void leveldb_iter_destroy(leveldb_iterator_t* iter);
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iter);
void leveldb_iter_seek_to_first(leveldb_iterator_t* iter);
void leveldb_iter_seek_to_last(leveldb_iterator_t* iter);

/* Moves to the first key at or after `k`. */
void leveldb_iter_seek(leveldb_iterator_t* iter, const char* k, size_t klen);

void leveldb_iter_next(leveldb_iterator_t* iter);
void leveldb_iter_prev(leveldb_iterator_t* iter);

/* Key and value are the iterator's, until it is moved or destroyed. The value is read when it is
   first asked for; if that fails it is empty, and leveldb_iter_get_error() says why. */
const char* leveldb_iter_key(const leveldb_iterator_t* iter, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t* iter, size_t* vlen);

void leveldb_iter_get_error(const leveldb_iterator_t* iter, char** errptr);

/* ---- Batches of writes ---- */

leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
void leveldb_writebatch_clear(leveldb_writebatch_t* batch);
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen,
                            const char* val, size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char* k, size_t klen, const char* v,
                                            size_t vlen),
                                void (*deleted)(void*, const char* k, size_t klen));
void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                               const leveldb_writebatch_t* source);

/* ---- Options of an open. Sizes that are not possible become the nearest that is. ---- */

leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t* options);

/* A comparator that does not order keys as their bytes are ordered has the open fail. It is called
   here, with 4096 pairs of keys, and never later. */
void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator);

void leveldb_options_set_filter_policy(leveldb_options_t* options,
                                       leveldb_filterpolicy_t* policy);
void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t create);
void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t fail);

/* Without effect: damage is always an error. */
void leveldb_options_set_paranoid_checks(leveldb_options_t* options, uint8_t check);

/* Without effect: files are those of the system. */
void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env);

/* Without effect. */
void leveldb_options_set_info_log(leveldb_options_t* options, leveldb_logger_t* log);

/* Memory of a MemTable, in bytes. Default: by the memory of the machine. */
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);

/* Without effect: `ulimit -n` is the limit. */
void leveldb_options_set_max_open_files(leveldb_options_t* options, int files);

/* The cache may be shared by several databases, and destroyed at any time. */
void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache);

void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);

/* Without effect. */
void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int keys);

/* Length of a table, in bytes: values of 192 bytes and more lie elsewhere. Default: 32 MiB. */
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };

/* Of blocks of tables and of values. Default: leveldb_snappy_compression, which is LZ4. */
void leveldb_options_set_compression(leveldb_options_t* options, int compression);

/* ---- Comparators: see leveldb_options_set_comparator() ---- */

leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                int (*compare)(void*, const char* a, size_t alen,
                                                               const char* b, size_t blen),
                                                const char* (*name)(void*));
void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* ---- Filter policies ---- */

/* Its functions, but for the destructor, are never called: filters are those of CleaveDB. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array,
                           int num_keys, size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter,
                             size_t filter_length),
    const char* (*name)(void*));
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);

/* Default: 10 bits, with or without a policy. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options of reads ---- */

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t* options);

/* Without effect: checksums are always checked. */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, uint8_t verify);

/* Without effect. */
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, uint8_t fill);

/* NULL is the database as it is now. */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
                                      const leveldb_snapshot_t* snapshot);

/* ---- Options of writes ---- */

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);

/* 0, the default: a write survives the death of the process. 1: also a loss of power. */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t sync);

/* ---- Caches: `capacity` bytes of blocks, filters and block indexes, at least 4 MiB ---- */

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- The environment, which is that of the system ---- */

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t* env);

/* A directory for tests, which is made: text for leveldb_free(). */
char* leveldb_env_get_test_directory(leveldb_env_t* env);

/* ---- Memory, and the version of LevelDB whose interface this is ---- */

/* Frees what a function here has returned for it. */
void leveldb_free(void* ptr);

int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
