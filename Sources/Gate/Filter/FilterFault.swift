package import Wire

/// Why a filtered answer cannot be delivered.
package enum FilterFault: Error, Equatable, Sendable {
    /// Part of the content, in which no tier need be.
    case partial
    /// An unknown content coding, or a broken one.
    case coding
    /// Content of another kind, on a route that lets only JSON pass.
    case notJSON
    /// The answer is one object above the caller's tier.
    case aboveTier
    case broken(JSONFault.Kind)
    /// A unit is larger than the maximum that is held back.
    case tooLarge
    /// The root does not match the start of a path: not an array, or an array instead of an object.
    case noList
}
