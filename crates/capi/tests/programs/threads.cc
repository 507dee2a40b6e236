// Both headers in C++: eight threads that open, write, iterate and close, one database each and one
// that they share, whose changes another thread follows.
#include <cleavedb.h>
#include <leveldb/c.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 8, kRounds = 3, kKeys = 100, kAll = kThreads * kRounds * kKeys;

// Ends the program if there is an error.
void fine(const cleavedb_error *error) {
    if (error != nullptr) std::fprintf(stderr, "%s\n", cleavedb_error_message(error));
    CHECK(error == nullptr);
}

class Database {
   public:
    explicit Database(const std::string &path) {
        cleavedb_error *error = nullptr;
        const char *options = "durability=os memory_bytes=64MiB change_retention_bytes=64MiB";
        db_ = cleavedb_open(path.c_str(), options, &error);
        fine(error);
        keys_ = cleavedb_keyspace_open(db_, nullptr, nullptr, &error);
        fine(error);
    }
    Database(const Database &) = delete;
    Database &operator=(const Database &) = delete;
    ~Database() {
        cleavedb_error *error = nullptr;
        cleavedb_keyspace_free(keys_);
        CHECK(cleavedb_close(db_, &error) == 0);
    }

    void put(const std::string &key, const std::string &value) const {
        cleavedb_error *error = nullptr;
        cleavedb_put(keys_, key.data(), key.size(), value.data(), value.size(), CLEAVEDB_DEFAULT,
                     &error);
        fine(error);
    }

    void add(const std::string &key) const {
        cleavedb_error *error = nullptr;
        cleavedb_add(keys_, key.data(), key.size(), 1, CLEAVEDB_DEFAULT, &error);
        fine(error);
    }

    // The pairs whose key has the prefix, each as key=value.
    std::vector<std::string> pairs(const std::string &prefix) const {
        cleavedb_error *error = nullptr;
        std::string end = prefix;
        end.back()++;
        cleavedb_cursor *cursor = cleavedb_cursor_open(keys_, prefix.data(), prefix.size(),
                                                       end.data(), end.size(), &error);
        std::vector<std::string> found;
        while (cleavedb_cursor_next(cursor, &error) == 1) {
            size_t len;
            const char *value = cleavedb_cursor_value(cursor, &len, &error);
            std::string pair = "=" + std::string(value, len);
            const char *key = cleavedb_cursor_key(cursor, &len);
            found.push_back(std::string(key, len) + pair);
        }
        fine(error);
        cleavedb_cursor_free(cursor);
        return found;
    }

    // Follows the changes from the first on: every key of every thread comes, and once.
    void follow() const {
        cleavedb_error *error = nullptr;
        cleavedb_changes *changes = cleavedb_changes_open(db_, 0, 0, &error);
        fine(error);
        std::set<std::string> seen;
        while (seen.size() < kAll) {
            CHECK(cleavedb_changes_next(changes, 60000, &error) == 1);
            cleavedb_change change;
            for (size_t i = 0; cleavedb_changes_at(changes, i, &change) == 1; i++) {
                const std::string key(change.key, change.key_len);
                if (key == "count") continue;
                CHECK(change.kind == CLEAVEDB_CHANGE_PUT && seen.insert(key).second);
            }
        }
        cleavedb_changes_free(changes);
    }

   private:
    cleavedb_db *db_;
    cleavedb_keyspace *keys_;
};

// A database of LevelDB's functions, with one key.
void level(const std::string &path) {
    char *error = nullptr;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_t *db = leveldb_open(options, path.c_str(), &error);
    leveldb_put(db, nullptr, "key", 3, "value", 5, &error);
    CHECK(error == nullptr);
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, nullptr);
    leveldb_iter_seek_to_first(iterator);
    size_t len;
    const char *value = leveldb_iter_value(iterator, &len);
    CHECK(std::string(value, len) == "value");
    leveldb_iter_next(iterator);
    CHECK(!leveldb_iter_valid(iterator));
    leveldb_iter_destroy(iterator);
    leveldb_close(db);
    leveldb_options_destroy(options);
}

void work(const Database &shared, int number) {
    const std::string prefix = std::to_string(number) + "/";
    std::vector<std::string> expected;
    for (int round = 0; round < kRounds; round++) {
        const Database own("own" + std::to_string(number));
        CHECK(own.pairs(prefix) == expected);
        for (int i = 0; i < kKeys; i++) {
            const std::string key = prefix + std::to_string(1000 * (round + 1) + i);
            const std::string value = std::to_string(i) + std::string(i, 'v');
            own.put(key, value);
            shared.put(key, value);
            shared.add("count");
            expected.push_back(key + "=" + value);
        }
        CHECK(own.pairs(prefix) == expected);
        CHECK(shared.pairs(prefix) == expected);
        level("level" + std::to_string(number));
    }
}

}  // namespace

int main() {
    const Database shared("shared");
    std::vector<std::thread> threads;
    threads.emplace_back([&shared] { shared.follow(); });
    for (int i = 0; i < kThreads; i++) threads.emplace_back(work, std::cref(shared), i);
    for (std::thread &thread : threads) thread.join();
    CHECK(shared.pairs("count") == std::vector<std::string>{"count=" + std::to_string(kAll)});
    puts("passed");
    return 0;
}
