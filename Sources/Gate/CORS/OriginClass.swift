/// How the origin of a request stands to the CORS policy that rules its answer.
package enum OriginClass: UInt8, Sendable, CaseIterable {
    /// No policy: `cors=off`, or none is set.
    case off
    /// No `Origin` was sent: the request is no browser's, or a page's of the same origin.
    case noOrigin
    /// The gateway's own origin, which needs no permission.
    case own
    case allowed
    case foreign
}
