import HTTP
import Wire

/// `GET /admin/api/configuration`: the settings in force, where each comes from, and the last reload.
extension AdminAPI {
    func showConfiguration() -> LocalResponse {
        let shown = gateway.controls.configuration()
        return .json(200) { json in
            json.beginObject()
            json.field("loaded_at", ISO8601.text(shown.loadedAt))
            json.field("version", shown.version)
            json.array("settings", shown.settings) { json, setting in
                json.beginObject()
                json.field("name", setting.name)
                json.key("value")
                if let value = setting.value { json.string(value) } else { json.null() }
                json.field("source", setting.source)
                json.field("secret", setting.isSecret)
                json.field("restart", setting.needsRestart)
                json.endObject()
            }
            if let reload = shown.lastReload {
                json.key("last_reload")
                json.beginObject()
                json.field("at", ISO8601.text(reload.at))
                json.field("ok", reload.faults.isEmpty)
                json.array("faults", reload.faults) { $0.string($1) }
                json.array("warnings", reload.warnings) { $0.string($1) }
                json.endObject()
            }
            json.endObject()
        }
    }
}
