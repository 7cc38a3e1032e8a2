extension WebPage {
    /// A toll gate with its barrier half open.
    static let icon = #"""
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 36 36">
        <rect width="36" height="36" rx="9" fill="#2742c9"/>
        <path d="M8 28h20" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/>
        <path d="M11 28V18" stroke="#fff" stroke-width="4" stroke-linecap="round"/>
        <path d="M11 18 28 8" stroke="#fff" stroke-width="4.5" stroke-linecap="round"/>
        <path d="M15.3 15.5l3-1.8M21.500 11.800l3-1.8" stroke="#f5a300" stroke-width="4.5"/>
        </svg>

        """#
}
