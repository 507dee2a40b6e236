/* Threads that open, write, read, iterate and close: one database each, and one that they share, which
   another thread closes below them. */
#include <leveldb/c.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 40 };

static leveldb_options_t* options;
static leveldb_writeoptions_t* writing;
static leveldb_t* shared;

/* Errors, but that of a closed database, end the program. */
static void only_closed(char** error) {
    if (*error == NULL) return;
    if (strstr(*error, "closed") == NULL) fprintf(stderr, "%s\n", *error);
    CHECK(strstr(*error, "closed") != NULL);
    leveldb_free(*error);
    *error = NULL;
}

static int counted(leveldb_t* db, char** error) {
    int count = 0;
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, NULL);
    size_t len;
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator);
         leveldb_iter_next(iterator)) {
        leveldb_iter_value(iterator, &len);
        count++;
    }
    leveldb_iter_get_error(iterator, error);
    leveldb_iter_destroy(iterator);
    return count;
}

static void* work(void* number) {
    char path[16], key[16];
    char* error = NULL;
    snprintf(path, sizeof path, "own%d", *(int*)number);
    leveldb_t* own = leveldb_open(options, path, &error);
    CHECK(own != NULL && error == NULL);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(key, sizeof key, "%d/%d", *(int*)number, i);
        leveldb_put(own, writing, key, strlen(key), "value", 5, &error);
        CHECK(error == NULL);
        CHECK(counted(own, &error) == i + 1 && error == NULL);
        leveldb_put(shared, writing, key, strlen(key), "value", 5, &error);
        only_closed(&error);
        counted(shared, &error);
        only_closed(&error);
    }
    leveldb_close(own);
    return NULL;
}

int main(void) {
    char* error = NULL;
    pthread_t threads[THREADS];
    int numbers[THREADS];
    options = leveldb_options_create();
    writing = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 65536);
    shared = leveldb_open(options, "shared", &error);
    CHECK(shared != NULL && error == NULL);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    CHECK(pthread_join(threads[0], NULL) == 0);
    leveldb_close(shared);
    for (int i = 1; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    leveldb_options_destroy(options);
    leveldb_writeoptions_destroy(writing);
    puts("passed");
    return 0;
}
