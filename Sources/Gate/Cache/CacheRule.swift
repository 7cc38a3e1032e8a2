package import HTTP
import Wire

/// How the answers of a route are cached (`cache=` and the options beside it).
package struct CacheRule: Equatable, Sendable {
    /// Which callers share a stored answer (`cache-by=`). The request to the upstream has no other fact about the caller.
    package enum Sharing: UInt8, CaseIterable, Sendable {
        case everyone, tier, user

        package var name: String {
            switch self {
            case .everyone: "public"
            case .tier: "tier"
            case .user: "user"
            }
        }
    }

    /// For how long an answer is fresh at most, in seconds; nil: nothing is cached.
    package var freshSeconds: UInt32?
    package var sharing = Sharing.user
    /// For how long a stale answer is used while a new one is fetched, in seconds.
    package var staleSeconds: UInt32?
    /// For how long a stale answer is used while the upstream fails, in seconds.
    package var errorSeconds: UInt32?
    /// Request fields that upstreams get and keys have (`cache-vary=`), in lower case.
    package var vary: [String] = []

    package init() {}
}

/// The part of a request that the upstream gets where the answer may be stored: nothing of the client that is not in the key, if others may get the
/// answer, and never what depends on one request alone.
package struct CachedFields: Sendable {
    /// Whether other callers may get the answer.
    package let isShared: Bool
    /// Whether content is filtered, so that the gateway asks for its form itself.
    package let isFiltered: Bool
    package let vary: [String]

    /// Whether the upstream gets this field of the client.
    package func passes(_ field: Field, _ bytes: RawSpan) -> Bool {
        switch field.known {
        case .accept, .acceptEncoding: return !isFiltered
        case .acceptLanguage: return true
        case .range, .ifRange, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .authorization: return false
        case .cookie, .cacheControl, .pragma: return isNamed(bytes[field.name])
        case .other where bytes[field.name].equalsIgnoringCase("a-im"): return false
        default: return !isShared || isNamed(bytes[field.name])
        }
    }

    /// Whether `cache-vary=` names it.
    private func isNamed(_ name: RawSpan) -> Bool {
        vary.contains { $0.withRawBytes { $0.equalsIgnoringCase(name) } }
    }
}

extension CacheRule {
    /// Whether `cache-vary=` may name this request field (in lower case): the gateway passes it on and does not write it itself.
    package static func mayVary(by name: String) -> Bool {
        name.withRawBytes { bytes in
            switch FieldName.recognise(bytes) {
            case .cookie, .cacheControl, .pragma, .accept, .acceptEncoding, .acceptLanguage, .userAgent, .origin, .referer: true
            case .other: !IdentityHeaders.owns(bytes) && !bytes.equals("a-im")
            default: false
            }
        }
    }
}
