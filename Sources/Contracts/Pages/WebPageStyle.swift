extension WebPage {
    /// The style sheet: one column, light and dark. Contrast is at least 4.5 for text and 3 for borders of controls (WCAG AA).
    static let style = #"""
        :root {
          color-scheme: light dark;
          --page: #eef0f4; --card: #fff; --edge: #dce0e8; --ink: #14171d; --quiet: #566072; --control: #7f8899;
          --accent: #2742c9; --accent-hover: #1e35a8; --on-accent: #fff; --wash: #f1f3f8;
          --danger: #b3261e; --danger-wash: #fdeceb; --gold: #f5b82e; --on-gold: #3a2600; --here: #0d6b3f; --here-wash: #e2f4ea;
          --shadow: 0 1px 2px rgb(20 23 29 / .06), 0 12px 32px -12px rgb(20 23 29 / .18);
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --page: #0c0f14; --card: #161a22; --edge: #2a303b; --ink: #eceff4; --quiet: #a4aebd; --control: #6f7a8b;
            --accent: #a9b9ff; --accent-hover: #c3ceff; --on-accent: #0f1535; --wash: #1f252f;
            --danger: #ffb4ab; --danger-wash: #3a1b1a; --gold: #f5b82e; --on-gold: #2b1c00; --here: #7fdca8; --here-wash: #14301f;
            --shadow: 0 1px 2px rgb(0 0 0 / .4), 0 12px 32px -12px rgb(0 0 0 / .6);
          }
        }
        * { box-sizing: border-box; margin: 0; }
        [hidden] { display: none !important; }
        html { scrollbar-gutter: stable; -webkit-text-size-adjust: 100%; }
        body {
          min-height: 100dvh; display: flex; flex-direction: column; align-items: center; background: var(--page); color: var(--ink);
          font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
          padding: max(1.5rem, 6dvh) max(1rem, env(safe-area-inset-right)) 5rem max(1rem, env(safe-area-inset-left));
        }
        header, main { width: 100%; max-width: 27rem; }
        header { display: flex; align-items: center; gap: .75rem; padding: 0 .25rem 1.25rem; font-weight: 650; font-size: 1.125rem; }
        body:has(#account:not([hidden])) :is(header, main) { max-width: 40rem; }
        .logo { display: block; border-radius: 9px; }
        .card {
          background: var(--card); border: 1px solid var(--edge); border-radius: 1rem; box-shadow: var(--shadow); padding: 1.75rem;
        }
        .account { display: grid; gap: 1rem; }
        h1, h2 { line-height: 1.25; letter-spacing: -.015em; text-wrap: balance; }
        h1 { font-size: 1.5rem; }
        h2 { font-size: 1.1875rem; }
        :is(h1, h2):focus { outline: none; }
        .lead, .quiet { color: var(--quiet); }
        .lead { margin-top: .25rem; }
        a { color: var(--accent); text-underline-offset: .2em; }
        :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }

        label { display: block; font-weight: 600; font-size: .9375rem; margin-bottom: .375rem; }
        label .quiet { font-weight: 400; }
        input {
          width: 100%; min-height: 2.875rem; padding: .5rem .875rem; font: inherit; color: inherit; background: var(--card);
          border: 1px solid var(--control); border-radius: .625rem;
        }
        input:focus { outline: 2px solid var(--accent); outline-offset: 0; border-color: var(--accent); }
        input[aria-invalid] { border-color: var(--danger); outline-color: var(--danger); }
        .secret { position: relative; }
        .secret input { padding-right: 4.75rem; }
        .secret button {
          position: absolute; inset: .25rem .25rem .25rem auto; min-width: 3.75rem; border: 0; border-radius: .4375rem;
          background: none; color: var(--accent); font: inherit; font-size: .9375rem; font-weight: 600; cursor: pointer;
        }
        .secret button:hover { background: var(--wash); }
        .field { margin-top: 1.125rem; }
        .hint, .message { font-size: .875rem; line-height: 1.375rem; }
        .hint { color: var(--quiet); }
        .hint:not(:empty) { margin-top: .375rem; }
        .hint.wrong, .message { color: var(--danger); font-weight: 500; }
        .message:not(:empty) { margin-top: 1.125rem; padding: .5rem .75rem; border-radius: .5rem; background: var(--danger-wash); }

        .primary, .plain { font: inherit; font-weight: 600; cursor: pointer; border-radius: .625rem; }
        .primary {
          position: relative; width: 100%; min-height: 2.875rem; margin-top: 1.5rem; border: 1px solid transparent;
          background: var(--accent); color: var(--on-accent);
        }
        .primary:hover { background: var(--accent-hover); }
        .plain {
          min-height: 2.5rem; padding: 0 1rem; border: 1px solid var(--control); background: none; color: var(--ink); font-size: .9375rem;
        }
        .plain:hover { background: var(--wash); }
        .danger { color: var(--danger); }
        .danger:hover { background: var(--danger-wash); border-color: var(--danger); }
        [aria-busy=true]:is(button) { cursor: progress; opacity: .75; }
        .primary[aria-busy=true]::after {
          content: ""; position: absolute; right: 1rem; top: calc(50% - .5rem); width: 1rem; height: 1rem; border-radius: 50%;
          border: 2px solid currentcolor; border-right-color: transparent; animation: turn .8s linear infinite;
        }
        @keyframes turn { to { rotate: 1turn; } }
        .aside { margin-top: 1.25rem; text-align: center; color: var(--quiet); }
        #sign-out-everywhere { width: 100%; margin-top: 1.5rem; }

        .top { display: flex; align-items: center; justify-content: space-between; gap: 1rem; }
        .who { display: flex; align-items: center; gap: 1rem; margin-top: 1.5rem; min-height: 3.25rem; }
        .who div, li div { flex: 1; min-width: 0; }
        .initial {
          flex: none; display: grid; place-items: center; width: 3.25rem; height: 3.25rem; border-radius: 50%;
          background: var(--accent); color: var(--on-accent); font-size: 1.375rem; font-weight: 650;
        }
        .name { display: flex; flex-wrap: wrap; align-items: center; gap: .125rem .5rem; font-weight: 600; overflow-wrap: anywhere; }
        .name > :first-child { min-width: 0; }
        .who .name { font-size: 1.125rem; line-height: 1.375; }
        .who .quiet { overflow-wrap: anywhere; line-height: 1.375; }
        .badge {
          flex: none; padding: 0 .625rem; border-radius: 1rem; font-size: .8125rem; line-height: 1.375rem; font-weight: 600;
          background: var(--wash); color: var(--ink); border: 1px solid var(--edge);
        }
        .badge.premium { background: var(--gold); color: var(--on-gold); border-color: transparent; }
        .badge.here { background: var(--here-wash); color: var(--here); border-color: transparent; }
        dl { margin-top: 1.5rem; border-top: 1px solid var(--edge); }
        dl div { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; padding-top: .75rem; min-height: 2.25rem; }
        dt { color: var(--quiet); }
        dd { margin: 0; overflow-wrap: anywhere; }
        .code { font: .875rem/1.5rem ui-monospace, SFMono-Regular, Menlo, monospace; user-select: all; }

        ul { list-style: none; padding: 0; margin-top: .75rem; min-height: 6rem; }
        li { display: flex; align-items: center; gap: 1rem; padding: .875rem 0; border-top: 1px solid var(--edge); }
        li:first-child { border-top: 0; }
        li:last-child { padding-bottom: 0; }
        li .quiet { font-size: .875rem; line-height: 1.375rem; text-wrap: balance; }
        .device { flex: none; fill: none; stroke: var(--quiet); stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
        .phone, .mobile .computer { display: none; }
        .mobile .phone { display: inline; }

        /* What is not there yet has its room already, so that nothing moves when it comes. */
        #account[aria-busy=true] :is(#username, .who .quiet, dd, ul):empty {
          border-radius: .375rem; background: var(--wash); min-height: 1.25rem; animation: wait 1.2s ease-in-out infinite alternate;
        }
        #account[aria-busy=true] #username:empty { display: inline-block; width: 8rem; }
        #account[aria-busy=true] .who .quiet:empty { width: 12rem; margin-top: .25rem; }
        #account[aria-busy=true] dd:empty { width: 10rem; height: 1.25rem; }
        #account[aria-busy=true] #sessions:empty { min-height: 5.25rem; }
        #account[aria-busy=true] .badge:empty { visibility: hidden; }
        @keyframes wait { to { opacity: .45; } }

        .status {
          position: fixed; inset: auto 0 max(1rem, env(safe-area-inset-bottom)); width: fit-content; max-width: calc(100vw - 2rem);
          margin: 0 auto; padding: .625rem 1.125rem; border-radius: .75rem; background: var(--ink); color: var(--card);
          box-shadow: var(--shadow); font-size: .9375rem; font-weight: 500;
        }
        .status:empty { visibility: hidden; }

        @media (max-width: 30rem) {
          .card { padding: 1.375rem 1.25rem; }
          li { gap: .75rem; align-items: flex-start; }
          li .device { margin-top: .125rem; }
        }
        @media (prefers-reduced-motion: reduce) { *, ::after { animation: none !important; } }
        @media (forced-colors: active) {
          .primary, .status, .badge, .initial { border: 1px solid; }
          .primary[aria-busy=true]::after { display: none; }
        }

        """#
}
