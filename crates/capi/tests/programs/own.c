/* Every function of cleavedb.h, in one program. */
#include <cleavedb.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static cleavedb_error *error = NULL;

/* The call before has failed with this kind, and a message that has these words. */
#define FAILED(kind, words)                                             \
    do {                                                                \
        CHECK(error != NULL);                                           \
        const char *message = cleavedb_error_message(error);            \
        if (strstr(message, words) == NULL) puts(message);              \
        CHECK(strstr(message, words) != NULL);                          \
        CHECK(cleavedb_error_kind(error) == (kind));                    \
        cleavedb_error_free(error);                                     \
        error = NULL;                                                   \
    } while (0)

/* The call before has returned this, and no error. */
#define IS(call, expected)                                                       \
    do {                                                                         \
        long long got = (long long)(call);                                       \
        if (error != NULL) puts(cleavedb_error_message(error));                  \
        CHECK(error == NULL);                                                    \
        if (got != (long long)(expected)) printf("%s is %lld\n", #call, got);    \
        CHECK(got == (long long)(expected));                                     \
    } while (0)

static int has(cleavedb_value *value, const char *expected) {
    size_t len;
    CHECK(error == NULL);
    if (value == NULL) return expected == NULL;
    const char *data = cleavedb_value_data(value, &len);
    int same = expected != NULL && len == strlen(expected) && memcmp(data, expected, len) == 0;
    cleavedb_value_free(value);
    return same;
}

#define KEY(text) text, sizeof(text) - 1

static void reads_and_writes(cleavedb_db *db, cleavedb_keyspace *fruit) {
    size_t len;
    char buffer[4];
    IS(cleavedb_durability(db, &error), CLEAVEDB_OS);
    IS(cleavedb_put(fruit, KEY("apple"), KEY("red"), CLEAVEDB_SYNC, &error), 0);
    IS(cleavedb_put(fruit, KEY("banana"), KEY("yellow"), CLEAVEDB_DEFAULT, &error), 0);
    CHECK(cleavedb_put(fruit, KEY("k"), KEY("v"), 9, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "no durability 9");
    CHECK(has(cleavedb_get(fruit, KEY("apple"), &error), "red"));
    CHECK(has(cleavedb_get(fruit, KEY("cherry"), &error), NULL));
    IS(cleavedb_get_into(fruit, KEY("banana"), buffer, sizeof buffer, &len, &error), 1);
    CHECK(len == 6 && memcmp(buffer, "yell", 4) == 0);
    IS(cleavedb_get_into(fruit, KEY("banana"), NULL, 0, &len, &error), 1);
    IS(cleavedb_get_into(fruit, KEY("cherry"), buffer, sizeof buffer, &len, &error), 0);
    CHECK(len == 0);
    const char *keys[3] = {"apple", "cherry", "banana"};
    const size_t lens[3] = {5, 6, 6};
    cleavedb_value *values[3];
    IS(cleavedb_get_many(fruit, 3, keys, lens, values, &error), 0);
    CHECK(has(values[0], "red") && values[1] == NULL && has(values[2], "yellow"));
    CHECK(cleavedb_get_many(fruit, 3, NULL, lens, values, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "NULL");
    IS(cleavedb_contains(fruit, KEY("apple"), &error), 1);
    IS(cleavedb_contains(fruit, KEY("cherry"), &error), 0);

    IS(cleavedb_put_for(fruit, KEY("short"), KEY("lived"), 1, CLEAVEDB_OS, &error), 0);
    usleep(20000);
    IS(cleavedb_contains(fruit, KEY("short"), &error), 0);
    IS(cleavedb_put_for(fruit, KEY("long"), KEY("lived"), 3600000, CLEAVEDB_OS, &error), 0);
    IS(cleavedb_contains(fruit, KEY("long"), &error), 1);
    IS(cleavedb_delete(fruit, KEY("long"), CLEAVEDB_BUFFERED, &error), 0);
    IS(cleavedb_contains(fruit, KEY("long"), &error), 0);

    IS(cleavedb_add(fruit, KEY("count"), 40, CLEAVEDB_DEFAULT, &error), 0);
    IS(cleavedb_add(fruit, KEY("count"), 2, CLEAVEDB_DEFAULT, &error), 0);
    CHECK(has(cleavedb_get(fruit, KEY("count"), &error), "42"));
    IS(cleavedb_merge(fruit, KEY("list"), "append", KEY("ab"), CLEAVEDB_DEFAULT, &error), 0);
    IS(cleavedb_merge(fruit, KEY("list"), "append", KEY("cd"), CLEAVEDB_DEFAULT, &error), 0);
    CHECK(has(cleavedb_get(fruit, KEY("list"), &error), "abcd"));
    CHECK(cleavedb_merge(fruit, KEY("list"), "none", KEY("x"), CLEAVEDB_DEFAULT, &error) == -1);
    FAILED(CLEAVEDB_MERGE, "none");
    IS(cleavedb_put_if_absent(fruit, KEY("apple"), KEY("green"), 0, &error), 0);
    IS(cleavedb_put_if_absent(fruit, KEY("cherry"), KEY("dark"), 0, &error), 1);
    IS(cleavedb_compare_and_swap(fruit, KEY("cherry"), KEY("x"), KEY("y"), 0, &error), 0);
    IS(cleavedb_compare_and_swap(fruit, KEY("cherry"), KEY("dark"), KEY("black"), 0, &error), 1);
    CHECK(has(cleavedb_get(fruit, KEY("cherry"), &error), "black"));
    IS(cleavedb_compare_and_swap(fruit, KEY("cherry"), KEY("black"), NULL, 0, 0, &error), 1);
    IS(cleavedb_contains(fruit, KEY("cherry"), &error), 0);
    IS(cleavedb_delete_range(fruit, KEY("c"), NULL, 0, CLEAVEDB_DEFAULT, &error), 0);
    CHECK(cleavedb_delete_range(fruit, KEY("c"), KEY("b"), CLEAVEDB_DEFAULT, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "");
    IS(cleavedb_contains(fruit, KEY("list"), &error), 0);
}

/* Reads 'a' as often as the state says, and then fails if that was 7. */
static ptrdiff_t letters(void *state, char *buffer, size_t room) {
    size_t *left = state;
    if (*left == 7) return -1;
    size_t len = *left < room ? *left : room;
    memset(buffer, 'a', len);
    *left -= len;
    return (ptrdiff_t)len;
}

/* Counts letters, and has enough at 7 bytes. */
static int count(void *state, const char *piece, size_t len) {
    size_t *counted = state;
    for (size_t i = 0; i < len; i++) CHECK(piece[i] == 'a');
    *counted += len;
    return *counted == 7 ? 12 : 0;
}

struct caller {
    cleavedb_keyspace *fruit;
    size_t letters;
};

/* As letters(), and writes meanwhile. */
static ptrdiff_t letters_and_put(void *state, char *buffer, size_t room) {
    struct caller *caller = state;
    IS(cleavedb_put(caller->fruit, KEY("meanwhile"), KEY("put"), 0, &error), 0);
    return letters(&caller->letters, buffer, room);
}

/* As count(), and deletes the value meanwhile. */
static int count_and_delete(void *state, const char *piece, size_t len) {
    struct caller *caller = state;
    IS(cleavedb_delete(caller->fruit, KEY("long"), 0, &error), 0);
    return count(&caller->letters, piece, len);
}

static void callbacks_call(cleavedb_keyspace *fruit) {
    struct caller caller = {fruit, 5000000};
    IS(cleavedb_put_pieces(fruit, KEY("long"), letters_and_put, &caller, 0, 0, &error), 0);
    CHECK(caller.letters == 0 && has(cleavedb_get(fruit, KEY("meanwhile"), &error), "put"));
    IS(cleavedb_get_pieces(fruit, KEY("long"), count_and_delete, &caller, &error), 1);
    CHECK(caller.letters == 5000000);
    IS(cleavedb_contains(fruit, KEY("long"), &error), 0);
    IS(cleavedb_delete(fruit, KEY("meanwhile"), 0, &error), 0);
}

static void pieces(cleavedb_keyspace *fruit) {
    size_t left = 100000, len;
    IS(cleavedb_put_pieces(fruit, KEY("long"), letters, &left, 0, CLEAVEDB_OS, &error), 0);
    CHECK(left == 0 && has(cleavedb_get_piece(fruit, KEY("long"), 99997, 9, &error), "aaa"));
    CHECK(has(cleavedb_get_piece(fruit, KEY("none"), 0, 9, &error), NULL));
    IS(cleavedb_get_into(fruit, KEY("long"), NULL, 0, &len, &error), 1);
    CHECK(len == 100000);
    size_t counted = 0;
    IS(cleavedb_get_pieces(fruit, KEY("long"), count, &counted, &error), 1);
    CHECK(counted == 100000);
    IS(cleavedb_get_pieces(fruit, KEY("none"), count, &counted, &error), 0);
    CHECK(cleavedb_get_pieces(fruit, KEY("long"), NULL, NULL, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "callback is NULL");
    IS(cleavedb_put(fruit, KEY("long"), KEY("aaaaaaa"), CLEAVEDB_OS, &error), 0);
    counted = 0;
    CHECK(cleavedb_get_pieces(fruit, KEY("long"), count, &counted, &error) == -1);
    FAILED(CLEAVEDB_IO, "returned 12");
    left = 7;
    CHECK(cleavedb_put_pieces(fruit, KEY("bad"), letters, &left, 0, CLEAVEDB_OS, &error) == -1);
    FAILED(CLEAVEDB_IO, "returned -1");
    IS(cleavedb_contains(fruit, KEY("bad"), &error), 0);
    CHECK(cleavedb_put_pieces(fruit, KEY("bad"), NULL, NULL, 0, CLEAVEDB_OS, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "callback is NULL");
    IS(cleavedb_delete(fruit, KEY("long"), CLEAVEDB_OS, &error), 0);
}

static int at(cleavedb_cursor *cursor, const char *expected_key, const char *expected_value) {
    size_t len;
    const char *value = cleavedb_cursor_value(cursor, &len, &error);
    CHECK(error == NULL && value != NULL);
    int same = len == strlen(expected_value) && memcmp(value, expected_value, len) == 0;
    const char *key = cleavedb_cursor_key(cursor, &len);
    return same && len == strlen(expected_key) && memcmp(key, expected_key, len) == 0;
}

static void cursors_and_snapshots(cleavedb_db *db, cleavedb_keyspace *fruit) {
    size_t len;
    cleavedb_keyspace *other = cleavedb_keyspace_open(db, "other", NULL, &error);
    cleavedb_snapshot *snapshot = cleavedb_snapshot_take(fruit, &error);
    cleavedb_snapshot *empty = cleavedb_snapshot_keyspace(snapshot, other, &error);
    IS(cleavedb_put(fruit, KEY("avocado"), KEY("green"), 0, &error), 0);
    IS(cleavedb_put(other, KEY("avocado"), KEY("other"), 0, &error), 0);
    CHECK(has(cleavedb_snapshot_get(snapshot, KEY("apple"), &error), "red"));
    CHECK(has(cleavedb_snapshot_get(snapshot, KEY("avocado"), &error), NULL));
    CHECK(has(cleavedb_snapshot_get(empty, KEY("avocado"), &error), NULL));
    cleavedb_cursor *cursor = cleavedb_cursor_open(fruit, KEY("a"), KEY("b"), &error);
    CHECK(cleavedb_cursor_key(cursor, &len) == NULL && len == 0);
    CHECK(cleavedb_cursor_value(cursor, &len, &error) == NULL && error == NULL);
    IS(cleavedb_cursor_next(cursor, &error), 1);
    CHECK(at(cursor, "apple", "red"));
    IS(cleavedb_cursor_next(cursor, &error), 1);
    CHECK(at(cursor, "avocado", "green"));
    IS(cleavedb_cursor_next(cursor, &error), 0);
    IS(cleavedb_cursor_prev(cursor, &error), 1);
    IS(cleavedb_cursor_first(cursor, &error), 1);
    CHECK(at(cursor, "apple", "red"));
    IS(cleavedb_cursor_last(cursor, &error), 1);
    IS(cleavedb_cursor_seek(cursor, KEY("ar"), &error), 1);
    CHECK(at(cursor, "avocado", "green"));
    IS(cleavedb_cursor_seek_for_prev(cursor, KEY("ar"), &error), 1);
    CHECK(at(cursor, "apple", "red"));
    cleavedb_cursor_free(cursor);
    cursor = cleavedb_snapshot_cursor(snapshot, NULL, 0, NULL, 0, &error);
    IS(cleavedb_cursor_next(cursor, &error), 1);
    IS(cleavedb_cursor_next(cursor, &error), 1);
    CHECK(at(cursor, "banana", "yellow"));
    cleavedb_cursor_free(cursor);
    char *names = cleavedb_keyspace_names(db, &error);
    CHECK(names != NULL && strcmp(names, "other\n") == 0);
    cleavedb_free(names);
    cleavedb_snapshot_free(empty);
    cleavedb_snapshot_free(snapshot);
    IS(cleavedb_keyspace_drop(db, "other", &error), 0);
    CHECK(cleavedb_put(other, KEY("k"), KEY("v"), 0, &error) == -1);
    FAILED(CLEAVEDB_NO_KEYSPACE, "");
    cleavedb_keyspace_free(other);
}

static void keyspaces(cleavedb_db *db) {
    cleavedb_keyspace *brief = cleavedb_keyspace_open(db, "brief", "ttl=1ms, compression=lz4", &error);
    CHECK(brief != NULL && error == NULL);
    IS(cleavedb_put(brief, KEY("k"), KEY("v"), CLEAVEDB_OS, &error), 0);
    usleep(20000);
    IS(cleavedb_contains(brief, KEY("k"), &error), 0);
    cleavedb_keyspace_free(brief);
    /* What it has it keeps. */
    brief = cleavedb_keyspace_open(db, "brief", "ttl=1h", &error);
    IS(cleavedb_put(brief, KEY("k"), KEY("v"), CLEAVEDB_OS, &error), 0);
    usleep(20000);
    IS(cleavedb_contains(brief, KEY("k"), &error), 0);
    cleavedb_keyspace_free(brief);
    CHECK(cleavedb_keyspace_open(db, "brief", "ttl=soon", &error) == NULL);
    FAILED(CLEAVEDB_INVALID_OPTIONS, "12h");
    CHECK(cleavedb_keyspace_open(db, "brief", "colour=red", &error) == NULL);
    FAILED(CLEAVEDB_INVALID_OPTIONS, "\"colour=red\" is no option of a keyspace");
    IS(cleavedb_keyspace_drop(db, "brief", &error), 0);
}

static void batches_and_transactions(cleavedb_db *db, cleavedb_keyspace *fruit) {
    cleavedb_batch *batch = cleavedb_batch_new();
    IS(cleavedb_batch_put(batch, fruit, KEY("x"), KEY("1"), 0, &error), 0);
    IS(cleavedb_batch_put(batch, fruit, KEY("y"), KEY("2"), 3600000, &error), 0);
    IS(cleavedb_batch_delete(batch, fruit, KEY("x"), &error), 0);
    IS(cleavedb_batch_delete_range(batch, fruit, KEY("z"), NULL, 0, &error), 0);
    CHECK(cleavedb_batch_put(NULL, fruit, KEY("x"), KEY("1"), 0, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "cleavedb_batch is NULL");
    CHECK(cleavedb_batch_len(batch) == 4);
    IS(cleavedb_write(db, batch, CLEAVEDB_OS, &error), 0);
    IS(cleavedb_contains(fruit, KEY("x"), &error), 0);
    CHECK(has(cleavedb_get(fruit, KEY("y"), &error), "2"));
    cleavedb_batch_clear(batch);
    CHECK(cleavedb_batch_len(batch) == 0);
    IS(cleavedb_write(db, batch, CLEAVEDB_DEFAULT, &error), 0);
    cleavedb_batch_free(batch);

    cleavedb_transaction *one = cleavedb_transaction_begin(db, &error);
    cleavedb_transaction *other = cleavedb_transaction_begin(db, &error);
    CHECK(has(cleavedb_transaction_get(one, fruit, KEY("y"), &error), "2"));
    CHECK(has(cleavedb_transaction_get(other, fruit, KEY("y"), &error), "2"));
    IS(cleavedb_transaction_put(one, fruit, KEY("y"), KEY("3"), &error), 0);
    IS(cleavedb_transaction_delete(other, fruit, KEY("y"), &error), 0);
    CHECK(has(cleavedb_transaction_get(one, fruit, KEY("y"), &error), "3"));
    IS(cleavedb_transaction_commit(one, CLEAVEDB_SYNC, &error), 0);
    CHECK(cleavedb_transaction_commit(other, CLEAVEDB_DEFAULT, &error) == -1);
    FAILED(CLEAVEDB_CONFLICT, "");
    CHECK(cleavedb_transaction_commit(one, CLEAVEDB_DEFAULT, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "was committed");
    cleavedb_transaction_free(one);
    cleavedb_transaction_free(other);
    CHECK(has(cleavedb_get(fruit, KEY("y"), &error), "3"));
}

static int is_text(const char *bytes, size_t len, const char *expected) {
    return bytes != NULL && len == strlen(expected) && memcmp(bytes, expected, len) == 0;
}

/* The only change of the next batch. */
static cleavedb_change next(cleavedb_changes *changes, int kind) {
    cleavedb_change change, more;
    IS(cleavedb_changes_next(changes, 0, &error), 1);
    IS(cleavedb_changes_at(changes, 0, &change), 1);
    IS(cleavedb_changes_at(changes, 1, &more), 0);
    if (change.kind != kind) printf("%d is kind %d\n", kind, change.kind);
    CHECK(change.kind == kind && cleavedb_changes_next_seq(changes) > change.seq);
    return change;
}

static void written_to_be_told(cleavedb_db *db, cleavedb_keyspace *fruit) {
    size_t left = 3000000, counted = 0;
    /* Before a value expires: then a merge is told as the put that it makes. */
    IS(cleavedb_merge(fruit, KEY("list"), "append", KEY("ab"), 0, &error), 0);
    IS(cleavedb_put(fruit, KEY("apple"), KEY("red"), 0, &error), 0);
    IS(cleavedb_put_for(fruit, KEY("banana"), KEY("yellow"), 3600000, 0, &error), 0);
    IS(cleavedb_put_pieces(fruit, KEY("long"), letters, &left, 0, 0, &error), 0);
    IS(cleavedb_get_pieces(fruit, KEY("long"), count, &counted, &error), 1);
    CHECK(counted == 3000000);
    IS(cleavedb_delete(fruit, KEY("apple"), 0, &error), 0);
    IS(cleavedb_delete_range(fruit, KEY("a"), KEY("c"), 0, &error), 0);
    IS(cleavedb_delete_range(fruit, KEY("d"), NULL, 0, 0, &error), 0);
    cleavedb_batch *batch = cleavedb_batch_new();
    IS(cleavedb_batch_put(batch, fruit, KEY("x"), KEY(""), 0, &error), 0);
    IS(cleavedb_batch_delete(batch, fruit, KEY("y"), &error), 0);
    IS(cleavedb_write(db, batch, CLEAVEDB_DEFAULT, &error), 0);
    cleavedb_batch_free(batch);
    cleavedb_keyspace_free(cleavedb_keyspace_open(db, "other", NULL, &error));
    IS(cleavedb_keyspace_drop(db, "other", &error), 0);
}

static void told(cleavedb_changes *changes) {
    cleavedb_change change = next(changes, CLEAVEDB_CHANGE_MERGE);
    CHECK(is_text(change.value, change.value_len, "ab") && strcmp(change.operation, "append") == 0);
    change = next(changes, CLEAVEDB_CHANGE_PUT);
    CHECK(is_text(change.key, change.key_len, "apple") && strcmp(change.keyspace, "default") == 0);
    CHECK(is_text(change.value, change.value_len, "red") && change.expires_millis == 0);
    CHECK(change.to == NULL && change.to_len == 0 && change.operation == NULL);
    change = next(changes, CLEAVEDB_CHANGE_PUT);
    CHECK(is_text(change.value, change.value_len, "yellow"));
    CHECK(change.expires_millis / 1000 - (uint64_t)time(NULL) - 3590 < 12);
    change = next(changes, CLEAVEDB_CHANGE_PUT_PIECES);
    CHECK(is_text(change.key, change.key_len, "long") && change.value_len == 3000000);
    CHECK(change.value == NULL);
    change = next(changes, CLEAVEDB_CHANGE_DELETE);
    CHECK(is_text(change.key, change.key_len, "apple"));
    change = next(changes, CLEAVEDB_CHANGE_DELETE_RANGE);
    CHECK(is_text(change.key, change.key_len, "a") && is_text(change.to, change.to_len, "c"));
    change = next(changes, CLEAVEDB_CHANGE_DELETE_RANGE);
    CHECK(is_text(change.key, change.key_len, "d") && change.to == NULL);
    IS(cleavedb_changes_next(changes, 0, &error), 1);
    IS(cleavedb_changes_at(changes, 0, &change), 1);
    CHECK(change.kind == CLEAVEDB_CHANGE_PUT && is_text(change.value, change.value_len, ""));
    IS(cleavedb_changes_at(changes, 1, &change), 1);
    CHECK(change.kind == CLEAVEDB_CHANGE_DELETE && is_text(change.key, change.key_len, "y"));
    IS(cleavedb_changes_at(changes, 2, &change), 0);
    CHECK(strcmp(next(changes, CLEAVEDB_CHANGE_KEYSPACE_CREATED).keyspace, "other") == 0);
    CHECK(strcmp(next(changes, CLEAVEDB_CHANGE_KEYSPACE_DROPPED).keyspace, "other") == 0);
    IS(cleavedb_changes_next(changes, 5, &error), 0);
    IS(cleavedb_changes_at(changes, 0, &change), 0);
}

static void changes_of(cleavedb_db *without) {
    CHECK(cleavedb_changes_open(without, 0, 0, &error) == NULL);
    FAILED(CLEAVEDB_NOT_RETAINED, "change_retention_bytes");
    cleavedb_db *db = cleavedb_open("told", "change_retention_bytes=64MiB blob_bytes=64KiB", &error);
    cleavedb_keyspace *fruit = cleavedb_keyspace_open(db, NULL, NULL, &error);
    IS(cleavedb_put(fruit, KEY("before"), KEY(""), 0, &error), 0);
    cleavedb_snapshot *snapshot = cleavedb_snapshot_take(fruit, &error);
    uint64_t from = cleavedb_snapshot_seq(snapshot) + 1;
    cleavedb_snapshot_free(snapshot);
    written_to_be_told(db, fruit);
    cleavedb_changes *changes = cleavedb_changes_open(db, from, 0, &error);
    told(changes);

    /* What a loss of power could undo is not for a reader of durable changes. */
    from = cleavedb_changes_next_seq(changes);
    cleavedb_changes *durable = cleavedb_changes_open(db, from, 1, &error);
    IS(cleavedb_put(fruit, KEY("cherry"), KEY("dark"), CLEAVEDB_OS, &error), 0);
    CHECK(is_text(next(changes, CLEAVEDB_CHANGE_PUT).key, 6, "cherry"));
    IS(cleavedb_changes_next(durable, 0, &error), 0);
    IS(cleavedb_sync(db, &error), 0);
    CHECK(is_text(next(durable, CLEAVEDB_CHANGE_PUT).key, 6, "cherry"));
    cleavedb_changes_free(durable);

    CHECK(cleavedb_changes_next(NULL, 0, &error) == -1);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "cleavedb_changes is NULL");
    CHECK(cleavedb_changes_at(NULL, 0, NULL) == 0 && cleavedb_changes_next_seq(NULL) == 0);
    cleavedb_keyspace_free(fruit);
    IS(cleavedb_close(db, &error), 0);
    CHECK(cleavedb_changes_next(changes, 1000, &error) == -1);
    FAILED(CLEAVEDB_CLOSED, "closed");
    cleavedb_changes_free(changes);
    IS(cleavedb_destroy("told", &error), 0);
}

static void copies(cleavedb_db *db) {
    IS(cleavedb_sync(db, &error), 0);
    IS(cleavedb_flush(db, &error), 0);
    IS(cleavedb_compact(db, &error), 0);
    IS(cleavedb_verify(db, &error), 0);
    char *metrics = cleavedb_metrics(db, &error);
    CHECK(metrics != NULL && strstr(metrics, "cleavedb_writes_total") != NULL);
    cleavedb_free(metrics);
    IS(cleavedb_checkpoint(db, "checkpoint", &error), 0);
    IS(cleavedb_backup(db, "backups", &error), 0);
    IS(cleavedb_restore("backups", 0, "restored", &error), 0);
    CHECK(cleavedb_restore("backups", 77, "nowhere", &error) == -1);
    cleavedb_error_free(error);
    error = NULL;
    const char *paths[2] = {"checkpoint", "restored"};
    for (int i = 0; i < 2; i++) {
        cleavedb_db *copy = cleavedb_open_read_only(paths[i], NULL, &error);
        cleavedb_keyspace *fruit = cleavedb_keyspace_open(copy, NULL, NULL, &error);
        CHECK(has(cleavedb_get(fruit, KEY("apple"), &error), "red"));
        CHECK(cleavedb_put(fruit, KEY("k"), KEY("v"), 0, &error) == -1);
        FAILED(CLEAVEDB_READ_ONLY, "");
        cleavedb_keyspace_free(fruit);
        IS(cleavedb_close(copy, &error), 0);
    }
    IS(cleavedb_destroy("restored", &error), 0);
}

static void encoding(void) {
    char one[9], other[9];
    const int64_t numbers[] = {INT64_MIN, -70000, -256, -1, 0, 1, 255, 256, INT64_MAX};
    for (size_t i = 1; i < sizeof numbers / sizeof *numbers; i++) {
        size_t len = cleavedb_encode_i64(numbers[i - 1], one, sizeof one);
        size_t other_len = cleavedb_encode_i64(numbers[i], other, sizeof other);
        CHECK(len <= 9 && other_len <= 9);
        int order = memcmp(one, other, len < other_len ? len : other_len);
        CHECK(order < 0 || (order == 0 && len < other_len));
    }
    CHECK(cleavedb_encode_u64(7, one, 9) == cleavedb_encode_i64(7, other, 9));
    CHECK(memcmp(one, other, 2) == 0);
    CHECK(cleavedb_encode_double(-1.5, one, 9) == 9 && cleavedb_encode_double(0.5, other, 9) == 9);
    CHECK(memcmp(one, other, 9) < 0);
}

static void *closed(void *db) {
    cleavedb_error *failed = NULL;
    int done = cleavedb_close(db, &failed);
    CHECK(failed == NULL || cleavedb_error_kind(failed) == CLEAVEDB_CLOSED);
    cleavedb_error_free(failed);
    return done == 0 ? db : NULL;
}

/* Of two threads that close at once, one does it, and the other is told. */
static void two_closers(void) {
    for (int i = 0; i < 20; i++) {
        cleavedb_db *db = cleavedb_open("twice", NULL, &error);
        pthread_t one, other;
        void *by_one, *by_other;
        CHECK(pthread_create(&one, NULL, closed, db) == 0);
        CHECK(pthread_create(&other, NULL, closed, db) == 0);
        CHECK(pthread_join(one, &by_one) == 0 && pthread_join(other, &by_other) == 0);
        CHECK((by_one == NULL) != (by_other == NULL));
    }
    IS(cleavedb_destroy("twice", &error), 0);
}

int main(void) {
    CHECK(cleavedb_open("db", "nonsense=1", &error) == NULL);
    FAILED(CLEAVEDB_INVALID_OPTIONS, "nonsense");
    CHECK(cleavedb_open("db", "preset=\xff", &error) == NULL);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "not UTF-8");
    CHECK(cleavedb_open("db", "preset=best", &error) == NULL);
    FAILED(CLEAVEDB_INVALID_OPTIONS, "wisckey");
    CHECK(cleavedb_open("no/such/parent", NULL, &error) == NULL);
    CHECK(strcmp(cleavedb_error_path(error), "no/such/parent") == 0);
    CHECK(cleavedb_error_key(error) == NULL);
    cleavedb_error_free(error);
    error = NULL;
    CHECK(cleavedb_keyspace_open(NULL, NULL, NULL, &error) == NULL);
    FAILED(CLEAVEDB_INVALID_ARGUMENT, "cleavedb_db is NULL");
    CHECK(cleavedb_error_kind(NULL) == CLEAVEDB_OK && cleavedb_error_message(NULL) == NULL);
    CHECK(cleavedb_close(NULL, &error) == 0);

    cleavedb_db *db = cleavedb_open("db", "preset=hashkv, memory_bytes=64MiB durability=os", &error);
    if (error != NULL) puts(cleavedb_error_message(error));
    CHECK(db != NULL && error == NULL);
    CHECK(cleavedb_open("db", NULL, &error) == NULL);
    FAILED(CLEAVEDB_LOCKED, "");
    cleavedb_keyspace *fruit = cleavedb_keyspace_open(db, NULL, NULL, &error);
    reads_and_writes(db, fruit);
    cursors_and_snapshots(db, fruit);
    batches_and_transactions(db, fruit);
    keyspaces(db);
    pieces(fruit);
    callbacks_call(fruit);
    changes_of(db);
    copies(db);
    encoding();
    two_closers();

    /* Everything outlives the close, and says that it has come. */
    cleavedb_cursor *cursor = cleavedb_cursor_open(fruit, NULL, 0, NULL, 0, &error);
    cleavedb_value *value = cleavedb_get(fruit, KEY("apple"), &error);
    IS(cleavedb_close(db, &error), 0);
    CHECK(cleavedb_close(db, &error) == -1);
    FAILED(CLEAVEDB_CLOSED, "closed");
    CHECK(cleavedb_put(fruit, KEY("k"), KEY("v"), 0, &error) == -1);
    FAILED(CLEAVEDB_CLOSED, "closed");
    CHECK(cleavedb_cursor_next(cursor, &error) == -1);
    FAILED(CLEAVEDB_CLOSED, "closed");
    CHECK(has(value, "red"));
    cleavedb_cursor_free(cursor);
    cleavedb_keyspace_free(fruit);
    IS(cleavedb_destroy("db", &error), 0);
    puts("passed");
    return 0;
}
