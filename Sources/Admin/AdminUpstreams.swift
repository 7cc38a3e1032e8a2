import HTTP
import Telemetry
import Wire

/// `GET /admin/api/upstreams`: which addresses get requests, and why the others do not.
extension AdminAPI {
    func showUpstreams() async -> LocalResponse {
        let statuses = await upstreams()
        return .json(200) { json in
            json.beginObject()
            json.array("upstreams", statuses) { json, status in
                json.beginObject()
                status.write(&json)
                json.endObject()
            }
            json.endObject()
        }
    }
}
