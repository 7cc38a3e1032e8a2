#include "ccurl.h"
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

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

// A transfer's resources, freed with it. The handle's private pointer refers to them.
typedef struct {
    ccurl_receiver receiver;
    struct curl_slist *headers;
    struct curl_slist *recipients;
    curl_mime *body;
    ccurl_admit admit;
    // Whether an address was refused.
    int was_refused;
    // libcurl's own words about an error.
    char error[CURL_ERROR_SIZE];
} belongings;

static void free_belongings(belongings *own) {
    if (own == NULL) return;
    curl_slist_free_all(own->headers);
    curl_slist_free_all(own->recipients);
    curl_mime_free(own->body);
    free(own);
}

// libcurl's write callback; the size is the product of two arguments.
static size_t received(char *bytes, size_t size, size_t count, void *context) {
    belongings *own = context;
    return own->receiver.receive(bytes, size * count, own->receiver.context);
}

// libcurl's callback before a connection.
static curl_socket_t admitted_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    belongings *own = context;
    const void *bytes = NULL;
    size_t count = 0;
    if (address->family == AF_INET) {
        bytes = &((struct sockaddr_in *)&address->addr)->sin_addr;
        count = 4;
    } else if (address->family == AF_INET6) {
        bytes = &((struct sockaddr_in6 *)&address->addr)->sin6_addr;
        count = 16;
    }
    if (bytes == NULL || !own->admit(bytes, count)) {
        own->was_refused = 1;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int append(struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer != NULL) *list = longer;
    return longer == NULL;
}

// The options of every transfer.
static int prepare(CURL *handle, const char *url, const char *schemes, long connect, long total, belongings *own) {
    int bad = 0;
    bad |= curl_easy_setopt(handle, CURLOPT_URL, url);
    bad |= curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, schemes);
    // No proxy, not even from the environment: only Settings reads it.
    bad |= curl_easy_setopt(handle, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, connect);
    bad |= curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, total);
    bad |= curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, received);
    bad |= curl_easy_setopt(handle, CURLOPT_WRITEDATA, own);
    bad |= curl_easy_setopt(handle, CURLOPT_PRIVATE, own);
    bad |= curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, own->error);
    return bad;
}

// Trusts the authorities of the PEM file alone: without a NULL here libcurl would add those of the system's folder. A connection reads
// the file as it is then; libcurl would otherwise keep what it has read for a day.
static int trust(CURL *handle, const char *authority_file) {
    if (authority_file == NULL) return 0;
    int bad = curl_easy_setopt(handle, CURLOPT_CAINFO, authority_file);
    bad |= curl_easy_setopt(handle, CURLOPT_CAPATH, NULL);
    bad |= curl_easy_setopt(handle, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    return bad;
}

static int prepare_request(CURL *handle, const ccurl_request *request, belongings *own) {
    int bad = prepare(
        handle, request->url, "http,https", request->connect_milliseconds, request->total_milliseconds, own);
    bad |= curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, request->redirect_schemes);
    bad |= curl_easy_setopt(handle, CURLOPT_USERAGENT, request->agent);
    bad |= curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, request->redirects > 0 ? 1L : 0L);
    bad |= curl_easy_setopt(handle, CURLOPT_MAXREDIRS, request->redirects);
    bad |= curl_easy_setopt(handle, CURLOPT_MAXFILESIZE, request->largest_body);
    if (request->unix_socket != NULL) bad |= curl_easy_setopt(handle, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket);
    if (request->abstract_socket != NULL) bad |= curl_easy_setopt(handle, CURLOPT_ABSTRACT_UNIX_SOCKET, request->abstract_socket);
    bad |= trust(handle, request->authority_file);
    if (request->client_certificate != NULL) {
        bad |= curl_easy_setopt(handle, CURLOPT_SSLCERT, request->client_certificate);
        bad |= curl_easy_setopt(handle, CURLOPT_SSLKEY, request->client_key);
    }
    if (request->admit != NULL) {
        own->admit = request->admit;
        bad |= curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, admitted_socket);
        bad |= curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, own);
        // A connection of another request may lead elsewhere.
        bad |= curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);
        bad |= curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L);
    }
    if (request->is_sent_once) {
        bad |= curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);
        bad |= curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L);
    }
    if (request->body != NULL) {
        bad |= curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, (long)request->body_count);
        bad |= curl_easy_setopt(handle, CURLOPT_COPYPOSTFIELDS, request->body);
        bad |= append(&own->headers, request->body_type);
    }
    for (const char *const *field = request->fields; *field != NULL; field++) bad |= append(&own->headers, *field);
    if (own->headers != NULL) bad |= curl_easy_setopt(handle, CURLOPT_HTTPHEADER, own->headers);
    return bad;
}

static int add_part(curl_mime *body, const char *text, const char *type) {
    curl_mimepart *part = curl_mime_addpart(body);
    if (part == NULL) return 1;
    int bad = curl_mime_data(part, text, CURL_ZERO_TERMINATED);
    bad |= curl_mime_type(part, type);
    bad |= curl_mime_encoder(part, "quoted-printable");
    return bad;
}

static int prepare_mail(CURL *handle, const ccurl_mail *mail, belongings *own) {
    int bad = prepare(handle, mail->url, "smtp,smtps", mail->connect_milliseconds, mail->total_milliseconds, own);
    bad |= curl_easy_setopt(handle, CURLOPT_SERVER_RESPONSE_TIMEOUT, (mail->answer_milliseconds + 999) / 1000);
    bad |= curl_easy_setopt(handle, CURLOPT_USE_SSL, mail->demands_tls ? CURLUSESSL_ALL : CURLUSESSL_TRY);
    bad |= curl_easy_setopt(handle, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    // Servers close idle connections, so one that was idle for 30 s is not reused.
    bad |= curl_easy_setopt(handle, CURLOPT_MAXAGE_CONN, 30L);
    bad |= trust(handle, mail->authority_file);
    if (mail->user != NULL) bad |= curl_easy_setopt(handle, CURLOPT_USERNAME, mail->user);
    if (mail->password != NULL) bad |= curl_easy_setopt(handle, CURLOPT_PASSWORD, mail->password);
    if (mail->text == NULL) return bad | curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, "NOOP");
    bad |= curl_easy_setopt(handle, CURLOPT_MAIL_FROM, mail->from);
    bad |= append(&own->recipients, mail->to);
    bad |= curl_easy_setopt(handle, CURLOPT_MAIL_RCPT, own->recipients);
    for (const char *const *line = mail->headers; *line != NULL; line++) bad |= append(&own->headers, *line);
    // Replaces multipart/mixed; libcurl adds the boundary.
    bad |= append(&own->headers, "Content-Type: multipart/alternative");
    bad |= curl_easy_setopt(handle, CURLOPT_HTTPHEADER, own->headers);
    own->body = curl_mime_init(handle);
    if (own->body == NULL) return 1;
    // The preferred form comes last (RFC 2046 §5.1.4).
    bad |= add_part(own->body, mail->text, "text/plain; charset=utf-8");
    bad |= add_part(own->body, mail->html, "text/html; charset=utf-8");
    bad |= curl_easy_setopt(handle, CURLOPT_MIMEPOST, own->body);
    return bad;
}

// The handle and what belongs to it; NULL without memory.
static CURL *new_handle(ccurl_receiver receiver, belongings **own) {
    CURL *handle = curl_easy_init();
    *own = handle == NULL ? NULL : calloc(1, sizeof **own);
    if (*own == NULL) {
        curl_easy_cleanup(handle);
        return NULL;
    }
    (*own)->receiver = receiver;
    return handle;
}

static void *begin(void *group, CURL *handle, belongings *own, int bad) {
    if (bad == 0 && curl_multi_add_handle(group, handle) == CURLM_OK) return handle;
    curl_easy_cleanup(handle);
    free_belongings(own);
    return NULL;
}

void *ccurl_transfer_new(void *group, const ccurl_request *request, ccurl_receiver receiver) {
    belongings *own;
    CURL *handle = new_handle(receiver, &own);
    return handle == NULL ? NULL : begin(group, handle, own, prepare_request(handle, request, own));
}

void *ccurl_mail_new(void *group, const ccurl_mail *mail, ccurl_receiver receiver) {
    belongings *own;
    CURL *handle = new_handle(receiver, &own);
    return handle == NULL ? NULL : begin(group, handle, own, prepare_mail(handle, mail, own));
}

void ccurl_transfer_free(void *group, void *transfer) {
    belongings *own = NULL;
    curl_easy_getinfo(transfer, CURLINFO_PRIVATE, (char **)&own);
    curl_multi_remove_handle(group, transfer);
    curl_easy_cleanup(transfer);
    free_belongings(own);
}

void ccurl_transfer_abandon(void *group, void *transfer) {
    // libcurl ends a mail and waits for the answer, up to a minute, wherever the transfer stands; without recipients it does
    // not (smtp_done).
    curl_easy_setopt(transfer, CURLOPT_MAIL_RCPT, NULL);
    ccurl_transfer_free(group, transfer);
}

long ccurl_transfer_status(void *transfer) {
    long status = 0;
    curl_easy_getinfo(transfer, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

const char *ccurl_transfer_field(void *transfer, const char *name, size_t index) {
    struct curl_header *header = NULL;
    return curl_easy_header(transfer, name, index, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

const char *ccurl_transfer_error(void *transfer, int outcome) {
    belongings *own = NULL;
    curl_easy_getinfo(transfer, CURLINFO_PRIVATE, (char **)&own);
    if (own != NULL && own->was_refused && outcome == CURLE_COULDNT_CONNECT) return "the address of the host is private";
    int is_tls = outcome == CURLE_SSL_CONNECT_ERROR || outcome == CURLE_PEER_FAILED_VERIFICATION || outcome == CURLE_SSL_CACERT_BADFILE;
    return is_tls && own != NULL && own->error[0] != 0 ? own->error : curl_easy_strerror((CURLcode)outcome);
}

int ccurl_outcome_is_login_denied(int outcome) { return outcome == CURLE_LOGIN_DENIED; }
