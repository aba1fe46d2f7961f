/* WiredTiger's methods as functions: its interface is structs of function pointers, whose layout only the header knows. */
#include <stddef.h>
#include <stdint.h>
#include <wiredtiger.h>

#define URI "table:usertable"

int fst_open(const char *folder, const char *config, WT_CONNECTION **connection) {
    return wiredtiger_open(folder, NULL, config, connection);
}

int fst_close(WT_CONNECTION *connection) { return connection->close(connection, NULL); }

int fst_create(WT_CONNECTION *connection, const char *config) {
    WT_SESSION *session;
    int failed = connection->open_session(connection, NULL, NULL, &session), closed;
    if (failed != 0)
        return failed;
    failed = session->create(session, URI, config);
    closed = session->close(session, NULL);
    return failed != 0 ? failed : closed;
}

int fst_session(WT_CONNECTION *connection, WT_SESSION **session, WT_CURSOR **cursor) {
    int failed = connection->open_session(connection, NULL, NULL, session);
    if (failed != 0)
        return failed;
    failed = (*session)->open_cursor(*session, URI, NULL, NULL, cursor);
    if (failed != 0)
        (void)(*session)->close(*session, NULL);
    return failed;
}

int fst_session_close(WT_SESSION *session) { return session->close(session, NULL); }

int fst_begin(WT_SESSION *session) { return session->begin_transaction(session, NULL); }
int fst_commit(WT_SESSION *session) { return session->commit_transaction(session, NULL); }
int fst_commit_unsynced(WT_SESSION *session) { return session->commit_transaction(session, "sync=off"); }
int fst_rollback(WT_SESSION *session) { return session->rollback_transaction(session, NULL); }
int fst_log_sync(WT_SESSION *session) { return session->log_flush(session, "sync=on"); }
int fst_checkpoint(WT_SESSION *session) { return session->checkpoint(session, NULL); }

static void key_of(WT_CURSOR *cursor, const void *key, size_t length) {
    WT_ITEM item = {.data = key, .size = length};
    cursor->set_key(cursor, &item);
}

/* What the cursor is at. */
static int value_of(WT_CURSOR *cursor, const void **value, size_t *length) {
    WT_ITEM item;
    int failed = cursor->get_value(cursor, &item);
    *value = item.data;
    *length = item.size;
    return failed;
}

/* The value lives until the next call on the cursor. */
int fst_get(WT_CURSOR *cursor, const void *key, size_t key_length, const void **value, size_t *length) {
    int failed;
    key_of(cursor, key, key_length);
    failed = cursor->search(cursor);
    return failed != 0 ? failed : value_of(cursor, value, length);
}

int fst_put(WT_CURSOR *cursor, const void *key, size_t key_length, const void *value, size_t length) {
    WT_ITEM item = {.data = value, .size = length};
    key_of(cursor, key, key_length);
    cursor->set_value(cursor, &item);
    return cursor->insert(cursor);
}

/* Goes to the first record at or after a key; whether it is the one of the key. */
int fst_seek(WT_CURSOR *cursor, const void *key, size_t key_length, int *is_it) {
    int failed, beside;
    key_of(cursor, key, key_length);
    failed = cursor->search_near(cursor, &beside);
    *is_it = failed == 0 && beside == 0;
    return failed == 0 && beside < 0 ? cursor->next(cursor) : failed;
}

int fst_value(WT_CURSOR *cursor, const void **value, size_t *length) { return value_of(cursor, value, length); }
int fst_next(WT_CURSOR *cursor) { return cursor->next(cursor); }
int fst_reset(WT_CURSOR *cursor) { return cursor->reset(cursor); }

int fst_is_rollback(int failed) { return failed == WT_ROLLBACK; }
int fst_is_absent(int failed) { return failed == WT_NOTFOUND; }
const char *fst_message(int failed) { return wiredtiger_strerror(failed); }
const char *fst_version(void) { return WIREDTIGER_VERSION_STRING; }
