#include "cconsole.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// A new file of the console gets an array here and a line in the table below.
static const unsigned char index_html[] = {
#embed "../Admin/Console/index.html"
};
static const unsigned char console_css[] = {
#embed "../Admin/Console/console.css"
};
static const unsigned char console_js[] = {
#embed "../Admin/Console/console.js"
};
static const unsigned char icon_svg[] = {
#embed "../Admin/Console/icon.svg"
};

#define FILE_OF(name, bytes) { name, bytes, sizeof bytes }
static const cconsole_file files[] = {
    FILE_OF("index.html", index_html),
    FILE_OF("console.css", console_css),
    FILE_OF("console.js", console_js),
    FILE_OF("icon.svg", icon_svg),
};

cconsole_file cconsole_file_at(size_t number) {
    if (number < sizeof files / sizeof *files) return files[number];
    return (cconsole_file){ NULL, NULL, 0 };
}
