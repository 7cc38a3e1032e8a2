#include "chiredis.h"
#include <hiredis/hiredis.h>
#include <stdlib.h>

_Static_assert(CHIREDIS_BULK == REDIS_REPLY_STRING && CHIREDIS_ARRAY == REDIS_REPLY_ARRAY, "hiredis's numbers");
_Static_assert(CHIREDIS_INTEGER == REDIS_REPLY_INTEGER && CHIREDIS_NIL == REDIS_REPLY_NIL, "hiredis's numbers");
_Static_assert(CHIREDIS_STATUS == REDIS_REPLY_STATUS && CHIREDIS_ERROR == REDIS_REPLY_ERROR, "hiredis's numbers");

// The size above which an empty read buffer is freed.
enum { KEPT_BYTES = 1 << 18 };

typedef struct {
    redisReader *hiredis;
    chiredis_record record;
    void *context;
    const char *fault;
} reader;

// hiredis wants an object for each node, which it passes on unread. Any pointer will do except NULL, which aborts the reader.
static void *object(const redisReadTask *task, int kind, long long number, const char *bytes, size_t count) {
    reader *to = task->privdata;
    return to->record(to->context, kind, number, bytes, count) ? to : NULL;
}

static void *create_string(const redisReadTask *task, char *bytes, size_t count) {
    // hiredis 0.14 does not check the CR LF after a bulk string.
    if (task->type == REDIS_REPLY_STRING && (bytes[count] != '\r' || bytes[count + 1] != '\n')) {
        ((reader *)task->privdata)->fault = "a bulk string does not end where its length says";
        return NULL;
    }
    return object(task, task->type, 0, bytes, count);
}

static void *create_array(const redisReadTask *task, int count) {
    return object(task, REDIS_REPLY_ARRAY, count, NULL, 0);
}

static void *create_integer(const redisReadTask *task, long long value) {
    return object(task, REDIS_REPLY_INTEGER, value, NULL, 0);
}

static void *create_nil(const redisReadTask *task) { return object(task, REDIS_REPLY_NIL, 0, NULL, 0); }

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
};

void *chiredis_reader_new(chiredis_record record, void *context) {
    reader *made = malloc(sizeof *made);
    if (made == NULL) return NULL;
    *made = (reader){.hiredis = redisReaderCreateWithFunctions(&functions), .record = record, .context = context};
    if (made->hiredis == NULL) {
        free(made);
        return NULL;
    }
    made->hiredis->maxbuf = KEPT_BYTES;
    made->hiredis->privdata = made;
    return made;
}

void chiredis_reader_free(void *reader_) {
    reader *from = reader_;
    redisReaderFree(from->hiredis);
    free(from);
}

int chiredis_reader_feed(void *reader_, const void *bytes, size_t count) {
    return redisReaderFeed(((reader *)reader_)->hiredis, bytes, count) == REDIS_OK;
}

int chiredis_reader_next(void *reader_) {
    void *reply = NULL;
    if (redisReaderGetReply(((reader *)reader_)->hiredis, &reply) != REDIS_OK) return -1;
    return reply != NULL;
}

size_t chiredis_reader_waiting(void *reader_) {
    redisReader *hiredis = ((reader *)reader_)->hiredis;
    return hiredis->len - hiredis->pos;
}

const char *chiredis_reader_fault(void *reader_) {
    reader *from = reader_;
    return from->fault != NULL ? from->fault : from->hiredis->errstr;
}

char *chiredis_format(int argc, const char **argv, const size_t *counts, size_t *count) {
    char *command = NULL;
    int length = redisFormatCommandArgv(&command, argc, argv, counts);
    if (length < 0) return NULL;
    *count = (size_t)length;
    return command;
}

void chiredis_format_free(char *command) { redisFreeCommand(command); }
