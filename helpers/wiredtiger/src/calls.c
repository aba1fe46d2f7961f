/* WiredTiger's methods as functions: its interface is structs of function pointers, whose layout only the header knows.
 *
 * Records are kept as MongoDB keeps a collection with its index of _id: values in a table by numbers that count up, and numbers in a
 * table by the keys. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wiredtiger.h>

#define RECORDS "table:collection"
#define INDEX "table:index"

/* A session, and its cursors on both tables. */
typedef struct {
    WT_SESSION *session;
    WT_CURSOR *records;
    WT_CURSOR *index;
} fst_session;

/* Standard output is for what the worker says. */
static int message(WT_EVENT_HANDLER *handler, WT_SESSION *session, const char *text) {
    (void)handler;
    (void)session;
    (void)fprintf(stderr, "%s\n", text);
    return 0;
}

static WT_EVENT_HANDLER handler = {.handle_message = message};

int fst_open(const char *folder, const char *config, WT_CONNECTION **connection) {
    return wiredtiger_open(folder, &handler, config, connection);
}

int fst_close(WT_CONNECTION *connection) { return connection->close(connection, NULL); }

/* Without cursors it is in nobody's way, and for what is about the database as a whole. */
int fst_session_open(WT_CONNECTION *connection, int cursors, fst_session *opened) {
    int failed = connection->open_session(connection, NULL, NULL, &opened->session);
    if (failed != 0 || !cursors)
        return failed;
    failed = opened->session->open_cursor(opened->session, RECORDS, NULL, NULL, &opened->records);
    if (failed == 0)
        failed = opened->session->open_cursor(opened->session, INDEX, NULL, NULL, &opened->index);
    if (failed != 0)
        (void)opened->session->close(opened->session, NULL);
    return failed;
}

int fst_session_close(fst_session *of) { return of->session->close(of->session, NULL); }

/* Makes the tables, where they are not there. */
int fst_create(fst_session *of, const char *records, const char *index) {
    int failed = of->session->create(of->session, RECORDS, records);
    return failed != 0 ? failed : of->session->create(of->session, INDEX, index);
}

/* WiredTiger's own check of both, which no cursor may be on. */
int fst_verify(fst_session *of) {
    int failed = of->session->verify(of->session, RECORDS, NULL);
    return failed != 0 ? failed : of->session->verify(of->session, INDEX, NULL);
}

int fst_begin(fst_session *of) { return of->session->begin_transaction(of->session, NULL); }
int fst_commit(fst_session *of) { return of->session->commit_transaction(of->session, NULL); }
int fst_rollback(fst_session *of) { return of->session->rollback_transaction(of->session, NULL); }
/* A session that is never reset is taken for one that hangs. */
int fst_log_sync(fst_session *of) {
    int failed = of->session->log_flush(of->session, "sync=on");
    return failed != 0 ? failed : of->session->reset(of->session);
}
int fst_checkpoint(fst_session *of) { return of->session->checkpoint(of->session, NULL); }

/* Lets go of the records that the cursors are at. */
int fst_reset(fst_session *of) {
    int records = of->records->reset(of->records), index = of->index->reset(of->index);
    return records != 0 ? records : index;
}

/* What was counted since the database was opened: completed checkpoints, syncs of the log. */
static int statistic(fst_session *of, int which, int64_t *count) {
    WT_CURSOR *statistics;
    const char *about, *printed;
    int failed = of->session->open_cursor(of->session, "statistics:", NULL, "statistics=(fast)", &statistics), closed;
    if (failed != 0)
        return failed;
    statistics->set_key(statistics, which);
    failed = statistics->search(statistics);
    if (failed == 0)
        failed = statistics->get_value(statistics, &about, &printed, count);
    closed = statistics->close(statistics);
    return failed != 0 ? failed : closed;
}

int fst_checkpoints(fst_session *of, int64_t *count) {
    return statistic(of, WT_STAT_CONN_CHECKPOINTS_TOTAL_SUCCEED, count);
}

int fst_log_syncs(fst_session *of, int64_t *count) { return statistic(of, WT_STAT_CONN_LOG_SYNC, count); }

/* The greatest number of a record; 0 where there is none. */
int fst_last(fst_session *of, int64_t *number) {
    int failed = of->records->prev(of->records);
    *number = 0;
    return failed == WT_NOTFOUND ? 0 : failed != 0 ? failed : of->records->get_key(of->records, number);
}

/* The value of the record that the index is at. It lives until the next call. */
static int record(fst_session *of, int64_t *number, const void **value, size_t *length) {
    WT_ITEM item;
    int failed = of->index->get_value(of->index, number);
    if (failed != 0)
        return failed;
    of->records->set_key(of->records, *number);
    if ((failed = of->records->search(of->records)) != 0 || (failed = of->records->get_value(of->records, &item)) != 0)
        return failed;
    *value = item.data;
    *length = item.size;
    return 0;
}

int fst_get(fst_session *of, const void *key, size_t key_length, int64_t *number, const void **value, size_t *length) {
    WT_ITEM item = {.data = key, .size = key_length};
    int failed;
    of->index->set_key(of->index, &item);
    failed = of->index->search(of->index);
    return failed != 0 ? failed : record(of, number, value, length);
}

int fst_put(fst_session *of, int64_t number, const void *value, size_t length) {
    WT_ITEM item = {.data = value, .size = length};
    of->records->set_key(of->records, number);
    of->records->set_value(of->records, &item);
    return of->records->insert(of->records);
}

int fst_index(fst_session *of, const void *key, size_t key_length, int64_t number) {
    WT_ITEM item = {.data = key, .size = key_length};
    of->index->set_key(of->index, &item);
    of->index->set_value(of->index, number);
    return of->index->insert(of->index);
}

/* Goes to the first key at or after one; whether it is that one. */
int fst_seek(fst_session *of, const void *key, size_t key_length, int *is_it) {
    WT_ITEM item = {.data = key, .size = key_length};
    int failed, side;
    of->index->set_key(of->index, &item);
    failed = of->index->search_near(of->index, &side);
    *is_it = failed == 0 && side == 0;
    return failed == 0 && side < 0 ? of->index->next(of->index) : failed;
}

int fst_next(fst_session *of) { return of->index->next(of->index); }

int fst_record(fst_session *of, const void **value, size_t *length) {
    int64_t number;
    return record(of, &number, value, length);
}

int fst_is_rollback(int failed) { return failed == WT_ROLLBACK; }
int fst_is_absent(int failed) { return failed == WT_NOTFOUND; }

/* The message of an error, into a buffer of the caller's: some are in one that all threads share. */
void fst_message(int failed, char *into, size_t length) {
    const char *known = wiredtiger_strerror(failed);
    (void)strncpy(into, known, length - 1);
    into[length - 1] = '\0';
}

const char *fst_version(void) { return WIREDTIGER_VERSION_STRING; }
