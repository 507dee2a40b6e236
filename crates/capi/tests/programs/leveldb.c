/* Every rule of leveldb/c.h, in one program. */
#include <leveldb/c.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char* error = NULL;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;

/* The call before has failed, with a message that has these words. */
#define FAILED(words)                                       \
    do {                                                    \
        CHECK(error != NULL);                               \
        if (strstr(error, words) == NULL) puts(error);      \
        CHECK(strstr(error, words) != NULL);                \
        leveldb_free(error);                                \
        error = NULL;                                       \
    } while (0)

#define FINE()                             \
    do {                                   \
        if (error != NULL) puts(error);    \
        CHECK(error == NULL);              \
    } while (0)

static leveldb_t* opened(const char* path) {
    leveldb_t* db = leveldb_open(options, path, &error);
    FINE();
    CHECK(db != NULL);
    return db;
}

static void put(leveldb_t* db, const char* key, const char* value) {
    leveldb_put(db, writing, key, strlen(key), value, strlen(value), &error);
    FINE();
}

static void is(leveldb_t* db, const char* key, const char* expected) {
    size_t len = 77;
    char* value = leveldb_get(db, reading, key, strlen(key), &len, &error);
    FINE();
    if (expected == NULL) {
        CHECK(value == NULL && len == 0);
        return;
    }
    CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
    leveldb_free(value);
}

static void null_handles(void) {
    size_t len;
    leveldb_close(NULL);
    leveldb_put(NULL, NULL, "k", 1, "v", 1, &error);
    FAILED("leveldb_t is NULL");
    CHECK(leveldb_get(NULL, NULL, "k", 1, &len, &error) == NULL);
    FAILED("leveldb_t is NULL");
    leveldb_put(NULL, NULL, "k", 1, "v", 1, NULL);
    CHECK(leveldb_open(NULL, "db", &error) == NULL);
    FAILED("leveldb_options_t is NULL");
    CHECK(leveldb_open(options, NULL, &error) == NULL);
    FAILED("path is NULL");
    leveldb_iterator_t* iterator = leveldb_create_iterator(NULL, NULL);
    leveldb_iter_seek_to_first(iterator);
    CHECK(!leveldb_iter_valid(iterator));
    leveldb_iter_get_error(iterator, &error);
    FAILED("leveldb_t is NULL");
    leveldb_iter_destroy(iterator);
    CHECK(!leveldb_iter_valid(NULL));
    leveldb_iter_next(NULL);
    leveldb_iter_get_error(NULL, &error);
    FINE();
    CHECK(leveldb_create_snapshot(NULL) == NULL);
    leveldb_release_snapshot(NULL, NULL);
    CHECK(leveldb_property_value(NULL, "leveldb.stats") == NULL);
    leveldb_compact_range(NULL, NULL, 0, NULL, 0);
    leveldb_writebatch_put(NULL, "k", 1, "v", 1);
    leveldb_writebatch_append(NULL, NULL);
    leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
    leveldb_options_set_comparator(NULL, NULL);
    leveldb_options_destroy(NULL);
    leveldb_free(NULL);
}

static void keys_and_values(void) {
    leveldb_t* db = opened("keys");
    size_t len;
    put(db, "apple", "red");
    is(db, "apple", "red");
    is(db, "banana", NULL);
    put(db, "", "empty key");
    put(db, "empty value", "");
    is(db, "", "empty key");
    is(db, "empty value", "");
    leveldb_put(db, writing, NULL, 0, NULL, 0, &error);
    FINE();
    is(db, "", "");
    leveldb_put(db, writing, NULL, 3, "v", 1, &error);
    FAILED("is NULL, but its length is 3");
    leveldb_put(db, writing, "k", SIZE_MAX, "v", 1, &error);
    FAILED("which no memory has");
    char* long_key = calloc(1, 100000);
    leveldb_put(db, NULL, long_key, 100000, "v", 1, &error);
    FAILED("100000 bytes is longer than the limit");
    leveldb_put(db, writing, "n\0ul", 4, "v\0v", 3, &error);
    FINE();
    char* value = leveldb_get(db, NULL, "n\0ul", 4, &len, &error);
    CHECK(len == 3 && memcmp(value, "v\0v", 3) == 0);
    leveldb_free(value);
    leveldb_delete(db, writing, "apple", 5, &error);
    leveldb_delete(db, writing, "never there", 11, &error);
    FINE();
    is(db, "apple", NULL);

    /* A batch says at its write that an operation did not fit. */
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, long_key, 100000, "v", 1);
    leveldb_writebatch_put(batch, "cherry", 6, "dark red", 8);
    leveldb_write(db, writing, batch, &error);
    FAILED("longer than the limit");
    is(db, "cherry", NULL);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "cherry", 6, "dark red", 8);
    leveldb_writebatch_append(batch, batch);
    leveldb_write(db, writing, batch, &error);
    FINE();
    is(db, "cherry", "dark red");
    leveldb_writebatch_destroy(batch);
    free(long_key);
    leveldb_close(db);
}

static void after_close(void) {
    size_t len;
    leveldb_t* db = opened("close");
    put(db, "a", "1");
    put(db, "b", "2");
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, reading);
    leveldb_iter_seek_to_first(iterator);
    CHECK(leveldb_iter_valid(iterator));
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);

    /* One database is open once. */
    CHECK(leveldb_open(options, "close", &error) == NULL);
    FAILED("locked");
    leveldb_close(db);
    leveldb_close(db);
    leveldb_put(db, writing, "k", 1, "v", 1, &error);
    FAILED("closed");
    CHECK(leveldb_get(db, reading, "a", 1, &len, &error) == NULL);
    FAILED("closed");
    CHECK(leveldb_create_snapshot(db) == NULL);
    leveldb_iterator_t* late = leveldb_create_iterator(db, reading);
    leveldb_iter_seek_to_first(late);
    CHECK(!leveldb_iter_valid(late));
    leveldb_iter_get_error(late, &error);
    FAILED("closed");
    leveldb_iter_destroy(late);

    leveldb_iter_seek_to_last(iterator);
    CHECK(!leveldb_iter_valid(iterator));
    leveldb_iter_value(iterator, &len);
    CHECK(len == 0);
    leveldb_iter_get_error(iterator, &error);
    FAILED("closed");
    leveldb_t* again = opened("close");
    is(again, "a", "1");
    leveldb_readoptions_set_snapshot(reading, snapshot);
    CHECK(leveldb_get(again, reading, "a", 1, &len, &error) == NULL);
    FAILED("closed");
    leveldb_release_snapshot(db, snapshot);
    CHECK(leveldb_get(again, reading, "a", 1, &len, &error) == NULL);
    FAILED("released");
    leveldb_readoptions_set_snapshot(reading, NULL);
    leveldb_iter_destroy(iterator);
    leveldb_close(again);
}

static void iterators(void) {
    leveldb_t* db = opened("iterators");
    size_t len;
    for (int i = 0; i < 1000; i++) {
        char key[16], value[400];
        snprintf(key, sizeof key, "k%03d", i);
        memset(value, 'a' + i % 26, sizeof value);
        leveldb_put(db, writing, key, 4, value, sizeof value, &error);
        FINE();
    }
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, reading);
    leveldb_delete(db, writing, "k500", 4, &error);
    int seen = 0;
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator);
         leveldb_iter_next(iterator)) {
        const char* key = leveldb_iter_key(iterator, &len);
        char expected[16];
        snprintf(expected, sizeof expected, "k%03d", seen);
        CHECK(len == 4 && memcmp(key, expected, 4) == 0);
        const char* value = leveldb_iter_value(iterator, &len);
        CHECK(len == 400 && value[0] == 'a' + seen % 26 && value[399] == value[0]);
        CHECK(leveldb_iter_value(iterator, &len) == value);
        seen++;
    }
    CHECK(seen == 1000);
    leveldb_iter_seek(iterator, "k5", 2);
    CHECK(memcmp(leveldb_iter_key(iterator, &len), "k500", 4) == 0);
    leveldb_iter_prev(iterator);
    CHECK(memcmp(leveldb_iter_key(iterator, &len), "k499", 4) == 0);
    leveldb_iter_seek(iterator, "z", 1);
    CHECK(!leveldb_iter_valid(iterator));
    leveldb_iter_get_error(iterator, &error);
    FINE();
    leveldb_iter_destroy(iterator);

    const char* from[2] = {"k000", "x"};
    const char* to[2] = {"k500", "y"};
    size_t lens[2] = {4, 1};
    uint64_t sizes[2] = {7, 7};
    leveldb_approximate_sizes(db, 2, from, lens, to, lens, sizes);
    CHECK(sizes[0] > 5000 && sizes[0] < 400000 && sizes[1] == 0);
    leveldb_compact_range(db, "k", 1, NULL, 0);
    const char* names[] = {"leveldb.stats", "leveldb.sstables", "leveldb.num-files-at-level0",
                           "leveldb.num-files-at-level6", "leveldb.approximate-memory-usage"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char* text = leveldb_property_value(db, names[i]);
        CHECK(text != NULL && strlen(text) > 0);
        leveldb_free(text);
    }
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level7") == NULL);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level") == NULL);
    CHECK(leveldb_property_value(db, "stats") == NULL);
    leveldb_close(db);
}

static int calls = 0;
static int backward(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
    (void)state;
    calls++;
    int order = memcmp(b, a, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (b_len > a_len) - (b_len < a_len);
}
static const char* backward_name(void* state) {
    (void)state;
    return "backward";
}
static void ended(void* state) { ++*(int*)state; }

static void comparators(void) {
    int ends = 0;
    leveldb_comparator_t* comparator =
        leveldb_comparator_create(&ends, ended, backward, backward_name);
    leveldb_options_set_comparator(options, comparator);
    CHECK(leveldb_open(options, "backward", &error) == NULL);
    FAILED("cleavedb_encode_");
    CHECK(access("backward", F_OK) != 0 && calls > 0);
    leveldb_options_set_comparator(options, NULL);
    leveldb_comparator_destroy(comparator);
    CHECK(ends == 1);
    leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create(&ends, ended, NULL, NULL, NULL);
    leveldb_options_set_filter_policy(options, policy);
    leveldb_filterpolicy_destroy(policy);
    CHECK(ends == 2);
}

/* Bytes of the largest table of a database are overwritten. */
static void damage(const char* path) {
    char command[400];
    snprintf(command, sizeof command,
             "f=$(ls -S %s/*.tbl | head -1); test -n \"$f\" && "
             "printf damaged | dd of=\"$f\" bs=1 seek=100 conv=notrunc 2>/dev/null", path);
    CHECK(system(command) == 0);
}

static void management(void) {
    size_t len;
    leveldb_t* db = opened("managed");
    leveldb_destroy_db(options, "managed", &error);
    FAILED("locked");
    for (int i = 0; i < 200; i++) {
        char key[16], value[100];
        snprintf(key, sizeof key, "k%03d", i);
        memset(value, 'v', sizeof value);
        leveldb_put(db, writing, key, 4, value, sizeof value, &error);
    }
    leveldb_close(db);
    leveldb_repair_db(options, "managed", &error);
    FINE();
    CHECK(access("managed.damaged", F_OK) != 0);
    db = opened("managed");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_close(db);
    damage("managed");
    leveldb_repair_db(options, "managed/", &error);
    FINE();
    CHECK(access("managed.damaged", F_OK) == 0 && access("managed.repaired", F_OK) != 0);
    db = opened("managed");
    leveldb_free(leveldb_get(db, reading, "k000", 4, &len, &error));
    FINE();
    leveldb_close(db);
    leveldb_destroy_db(options, "managed", &error);
    FINE();
    CHECK(access("managed", F_OK) != 0);
    leveldb_destroy_db(options, "managed", &error);
    FINE();
    CHECK(mkdir("foreign", 0700) == 0);
    fclose(fopen("foreign/file", "w"));
    leveldb_destroy_db(options, "foreign", &error);
    FAILED("not a database");
    CHECK(leveldb_open(options, "no/such/parent", &error) == NULL);
    FAILED("no/such/parent");
    leveldb_options_set_error_if_exists(options, 1);
    CHECK(leveldb_open(options, "keys", &error) == NULL);
    FAILED("exists");
    leveldb_options_set_error_if_exists(options, 0);

    leveldb_env_t* env = leveldb_create_default_env();
    setenv("TEST_TMPDIR", "testing", 1);
    char* directory = leveldb_env_get_test_directory(env);
    CHECK(strcmp(directory, "testing") == 0 && access("testing", F_OK) == 0);
    leveldb_free(directory);
    leveldb_env_destroy(env);
    CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
}

static void in_a_fork(void) {
    leveldb_t* db = opened("fork");
    put(db, "k", "v");
    pid_t child = fork();
    if (child == 0) {
        leveldb_put(db, writing, "k", 1, "w", 1, &error);
        FAILED("fork");
        leveldb_close(db);
        /* Its exit code would be that of Valgrind, for which memory of the threads that a fork does
           not have is lost. */
        kill(getpid(), SIGKILL);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    is(db, "k", "v");
    leveldb_close(db);
}

int main(void) {
    options = leveldb_options_create();
    reading = leveldb_readoptions_create();
    writing = leveldb_writeoptions_create();
    CHECK(leveldb_open(options, "none", &error) == NULL);
    FAILED("not a database");
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_cache_t* cache = leveldb_cache_create_lru(8 << 20);
    leveldb_options_set_cache(options, cache);
    leveldb_options_set_write_buffer_size(options, 1);
    leveldb_options_set_block_size(options, 0);
    leveldb_options_set_max_file_size(options, 1 << 20);
    null_handles();
    keys_and_values();
    leveldb_cache_destroy(cache);
    after_close();
    iterators();
    comparators();
    management();
    in_a_fork();
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(reading);
    leveldb_writeoptions_destroy(writing);
    puts("passed");
    return 0;
}
