/* cc hello.c $(pkg-config --cflags --libs cleavedb) && ./a.out */
#include <cleavedb.h>
#include <stdio.h>
#include <string.h>

static int failed(cleavedb_error *error) {
    fprintf(stderr, "%s\n", cleavedb_error_message(error));
    cleavedb_error_free(error);
    return 1;
}

int main(void) {
    cleavedb_error *error = NULL;
    cleavedb_db *db = cleavedb_open("fruit.db", NULL, &error);
    if (db == NULL) return failed(error);
    cleavedb_keyspace *fruit = cleavedb_keyspace_open(db, NULL, NULL, &error);
    if (fruit == NULL) return failed(error);
    const char *colours[][2] = {{"apple", "red"}, {"banana", "yellow"}, {"cherry", "dark red"}};
    for (int i = 0; i < 3; i++) {
        const char *key = colours[i][0], *value = colours[i][1];
        if (cleavedb_put(fruit, key, strlen(key), value, strlen(value), CLEAVEDB_SYNC, &error) < 0)
            return failed(error);
    }
    cleavedb_cursor *cursor = cleavedb_cursor_open(fruit, "b", 1, NULL, 0, &error);
    int found;
    while ((found = cleavedb_cursor_next(cursor, &error)) == 1) {
        size_t key_len, value_len;
        const char *value = cleavedb_cursor_value(cursor, &value_len, &error);
        if (value == NULL) return failed(error);
        const char *key = cleavedb_cursor_key(cursor, &key_len);
        printf("%.*s: %.*s\n", (int)key_len, key, (int)value_len, value);
    }
    if (found < 0) return failed(error);
    cleavedb_cursor_free(cursor);
    cleavedb_keyspace_free(fruit);
    return cleavedb_close(db, &error) < 0 ? failed(error) : 0;
}
