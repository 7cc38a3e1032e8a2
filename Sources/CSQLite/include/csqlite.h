// SQLite, and functions for macros that Swift does not import.
#pragma once
#include <sqlite3.h>

// Binds bytes, which are copied: SQLITE_TRANSIENT is a cast that Swift does not import.
static inline int csqlite_bind_text(sqlite3_stmt *statement, int place, const char *text, int count) {
    return sqlite3_bind_text(statement, place, text, count, SQLITE_TRANSIENT);
}
// Binds an empty value, never NULL, even if the pointer is.
static inline int csqlite_bind_bytes(sqlite3_stmt *statement, int place, const void *bytes, int count) {
    return count == 0 ? sqlite3_bind_zeroblob(statement, place, 0)
                      : sqlite3_bind_blob(statement, place, bytes, count, SQLITE_TRANSIENT);
}
