#include "cconsole.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// A new file of the console gets an array here and a line in the table below.
static const unsigned char index_html[] = {
#embed "../Admin/Console/index.html"
};
static const unsigned char account_js[] = {
#embed "../Admin/Console/account.js"
};
static const unsigned char api_js[] = {
#embed "../Admin/Console/api.js"
};
static const unsigned char app_js[] = {
#embed "../Admin/Console/app.js"
};
static const unsigned char audit_js[] = {
#embed "../Admin/Console/audit.js"
};
static const unsigned char charts_js[] = {
#embed "../Admin/Console/charts.js"
};
static const unsigned char configuration_js[] = {
#embed "../Admin/Console/configuration.js"
};
static const unsigned char console_css[] = {
#embed "../Admin/Console/console.css"
};
static const unsigned char device_js[] = {
#embed "../Admin/Console/device.js"
};
static const unsigned char dialog_js[] = {
#embed "../Admin/Console/dialog.js"
};
static const unsigned char dom_js[] = {
#embed "../Admin/Console/dom.js"
};
static const unsigned char format_js[] = {
#embed "../Admin/Console/format.js"
};
static const unsigned char icon_svg[] = {
#embed "../Admin/Console/icon.svg"
};
static const unsigned char keys_js[] = {
#embed "../Admin/Console/keys.js"
};
static const unsigned char limits_js[] = {
#embed "../Admin/Console/limits.js"
};
static const unsigned char live_js[] = {
#embed "../Admin/Console/live.js"
};
static const unsigned char now_js[] = {
#embed "../Admin/Console/now.js"
};
static const unsigned char outbox_js[] = {
#embed "../Admin/Console/outbox.js"
};
static const unsigned char parts_css[] = {
#embed "../Admin/Console/parts.css"
};
static const unsigned char people_js[] = {
#embed "../Admin/Console/people.js"
};
static const unsigned char rates_js[] = {
#embed "../Admin/Console/rates.js"
};
static const unsigned char refusals_js[] = {
#embed "../Admin/Console/refusals.js"
};
static const unsigned char routes_js[] = {
#embed "../Admin/Console/routes.js"
};
static const unsigned char table_js[] = {
#embed "../Admin/Console/table.js"
};
static const unsigned char walk_js[] = {
#embed "../Admin/Console/walk.js"
};

#define FILE_OF(name, bytes) { name, bytes, sizeof bytes }
static const cconsole_file files[] = {
    FILE_OF("index.html", index_html),
    FILE_OF("account.js", account_js),
    FILE_OF("api.js", api_js),
    FILE_OF("app.js", app_js),
    FILE_OF("audit.js", audit_js),
    FILE_OF("charts.js", charts_js),
    FILE_OF("configuration.js", configuration_js),
    FILE_OF("console.css", console_css),
    FILE_OF("device.js", device_js),
    FILE_OF("dialog.js", dialog_js),
    FILE_OF("dom.js", dom_js),
    FILE_OF("format.js", format_js),
    FILE_OF("icon.svg", icon_svg),
    FILE_OF("keys.js", keys_js),
    FILE_OF("limits.js", limits_js),
    FILE_OF("live.js", live_js),
    FILE_OF("now.js", now_js),
    FILE_OF("outbox.js", outbox_js),
    FILE_OF("parts.css", parts_css),
    FILE_OF("people.js", people_js),
    FILE_OF("rates.js", rates_js),
    FILE_OF("refusals.js", refusals_js),
    FILE_OF("routes.js", routes_js),
    FILE_OF("table.js", table_js),
    FILE_OF("walk.js", walk_js),
};

cconsole_file cconsole_file_at(size_t number) {
    if (number < sizeof files / sizeof *files) return files[number];
    return (cconsole_file){ NULL, NULL, 0 };
}
