#include "ccurl.h"
#include <curl/curl.h>
#include <stdlib.h>

void *ccurl_group_new(void) {
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
}

void ccurl_group_free(void *group) { curl_multi_cleanup(group); }

void ccurl_group_wake(void *group) { curl_multi_wakeup(group); }

void ccurl_group_advance(void *group) {
    int running = 0;
    curl_multi_perform(group, &running);
}

void ccurl_group_wait(void *group, int milliseconds) { curl_multi_poll(group, NULL, 0, milliseconds, NULL); }

void *ccurl_group_next_ended(void *group, int *outcome) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(group, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        *outcome = message->data.result;
        return message->easy_handle;
    }
    return NULL;
}

// libcurl hands a size in two factors; the private pointer of a transfer is its receiver, to be freed with it.
typedef struct {
    ccurl_receive receive;
    void *context;
} receiver;

static size_t received(char *bytes, size_t size, size_t count, void *context) {
    receiver *to = context;
    return to->receive(bytes, size * count, to->context);
}

static int prepare(CURL *handle, const ccurl_request *request, receiver *to) {
    int bad = 0;
    bad |= curl_easy_setopt(handle, CURLOPT_URL, request->url);
    bad |= curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, request->redirect_schemes);
    bad |= curl_easy_setopt(handle, CURLOPT_USERAGENT, request->agent);
    // Not from the environment, which only the settings read.
    bad |= curl_easy_setopt(handle, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, request->redirects > 0 ? 1L : 0L);
    bad |= curl_easy_setopt(handle, CURLOPT_MAXREDIRS, request->redirects);
    bad |= curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, request->connect_milliseconds);
    bad |= curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, request->total_milliseconds);
    bad |= curl_easy_setopt(handle, CURLOPT_MAXFILESIZE, request->largest_body);
    bad |= curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, received);
    bad |= curl_easy_setopt(handle, CURLOPT_WRITEDATA, to);
    bad |= curl_easy_setopt(handle, CURLOPT_PRIVATE, to);
    return bad;
}

void *ccurl_transfer_new(void *group, const ccurl_request *request) {
    CURL *handle = curl_easy_init();
    receiver *to = malloc(sizeof *to);
    if (handle == NULL || to == NULL) goto refused;
    *to = (receiver){.receive = request->receive, .context = request->context};
    if (prepare(handle, request, to) != 0 || curl_multi_add_handle(group, handle) != CURLM_OK) goto refused;
    return handle;
refused:
    if (handle != NULL) curl_easy_cleanup(handle);
    free(to);
    return NULL;
}

void ccurl_transfer_free(void *group, void *transfer) {
    receiver *to = NULL;
    curl_easy_getinfo(transfer, CURLINFO_PRIVATE, (char **)&to);
    curl_multi_remove_handle(group, transfer);
    curl_easy_cleanup(transfer);
    free(to);
}

long ccurl_transfer_status(void *transfer) {
    long status = 0;
    curl_easy_getinfo(transfer, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

const char *ccurl_transfer_field(void *transfer, const char *name) {
    struct curl_header *header = NULL;
    return curl_easy_header(transfer, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

const char *ccurl_outcome_text(int outcome) { return curl_easy_strerror((CURLcode)outcome); }
