import CLinux

/// The process's limit on open descriptors (RLIMIT_NOFILE).
package enum DescriptorLimit {
    /// Raises the soft limit to the hard one, if it is not there yet; returns the limit in force, nil if the system does not tell it.
    package static func raise() -> Int? {
        let limit = clinux_raise_descriptor_limit()
        return limit < 0 ? nil : limit
    }
}
