// The files of the gateway's own sites, packed with gzip: Sources/CSites/pack has made them of those in their folders. The compiler reads them by #embed, in
// milliseconds; an array literal of the same bytes takes the Swift compiler half a minute.
#pragma once
#include <stddef.h>

typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} csites_file;

// The file of this number, from 0, of the console or of the account page; name is NULL behind the last.
csites_file csites_console(size_t number);
csites_file csites_web(size_t number);
