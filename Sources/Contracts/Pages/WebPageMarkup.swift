extension WebPage {
    /// The document. `{assets}` stands for the folder of its files, `{auth}` for the base path of the `password` contract.
    static let markup = #"""
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
        <meta name="color-scheme" content="light dark">
        <meta name="theme-color" content="#eef0f4" media="(prefers-color-scheme: light)">
        <meta name="theme-color" content="#0c0f14" media="(prefers-color-scheme: dark)">
        <meta name="robots" content="noindex">
        <meta name="auth" content="{auth}">
        <title>Your account</title>
        <link rel="icon" type="image/svg+xml" href="{assets}/icon.svg">
        <link rel="stylesheet" href="{assets}/page.css">
        <link rel="modulepreload" href="{assets}/session.js">
        <script type="module" src="{assets}/page.js"></script>
        </head>
        <body>
        <header>
          <img class="logo" src="{assets}/icon.svg" width="36" height="36" alt="">
          <span>Tollgate</span>
        </header>

        <main>
        <noscript><p class="card notice">This page needs JavaScript. Switch it on for this site and reload.</p></noscript>

        <section id="sign-in" class="card" aria-labelledby="sign-in-title" hidden>
          <h1 id="sign-in-title" tabindex="-1">Sign in</h1>
          <p class="lead">Welcome back.</p>
          <form method="post" novalidate>
            <p class="message" role="alert"></p>
            <div class="field">
              <label for="sign-in-email">Email</label>
              <input id="sign-in-email" name="email" type="email" autocomplete="username" inputmode="email"
                autocapitalize="none" spellcheck="false" maxlength="254" required aria-describedby="sign-in-email-hint">
              <p id="sign-in-email-hint" class="hint"></p>
            </div>
            <div class="field">
              <label for="sign-in-password">Password</label>
              <div class="secret">
                <input id="sign-in-password" name="password" type="password" autocomplete="current-password"
                  autocapitalize="none" spellcheck="false" required aria-describedby="sign-in-password-hint">
                <button type="button" aria-controls="sign-in-password" aria-label="Show password">Show</button>
              </div>
              <p id="sign-in-password-hint" class="hint"></p>
            </div>
            <button class="primary">Sign in</button>
          </form>
          <p class="aside">New here? <a href="#register">Create an account</a></p>
        </section>

        <section id="register" class="card" aria-labelledby="register-title" hidden>
          <h1 id="register-title" tabindex="-1">Create an account</h1>
          <p class="lead">An email and a password will do.</p>
          <form method="post" novalidate>
            <p class="message" role="alert"></p>
            <div class="field">
              <label for="register-email">Email</label>
              <input id="register-email" name="email" type="email" autocomplete="username" inputmode="email"
                autocapitalize="none" spellcheck="false" maxlength="254" required aria-describedby="register-email-hint">
              <p id="register-email-hint" class="hint"></p>
            </div>
            <div class="field">
              <label for="register-name">Name <span class="quiet">(optional)</span></label>
              <input id="register-name" name="username" type="text" autocomplete="nickname" maxlength="64"
                aria-describedby="register-name-hint">
              <p id="register-name-hint" class="hint" data-hint="Shown in place of your email."></p>
            </div>
            <div class="field">
              <label for="register-password">Password</label>
              <div class="secret">
                <input id="register-password" name="password" type="password" autocomplete="new-password"
                  autocapitalize="none" spellcheck="false" minlength="8" required passwordrules="minlength: 8;"
                  aria-describedby="register-password-hint">
                <button type="button" aria-controls="register-password" aria-label="Show password">Show</button>
              </div>
              <p id="register-password-hint" class="hint" data-hint="At least 8 characters."></p>
            </div>
            <button class="primary">Create account</button>
          </form>
          <p class="aside">Have an account? <a href="#sign-in">Sign in</a></p>
        </section>

        <div id="account" class="account" aria-busy="true" hidden>
          <section class="card" aria-labelledby="account-title">
            <div class="top">
              <h1 id="account-title" tabindex="-1">Your account</h1>
              <button id="sign-out" class="plain" type="button">Sign out</button>
            </div>
            <div class="who">
              <span id="initial" class="initial" aria-hidden="true"></span>
              <div>
                <p class="name"><span id="username"></span> <span id="tier" class="badge"></span></p>
                <p id="email" class="quiet"></p>
              </div>
            </div>
            <dl>
              <div><dt>Plan</dt><dd id="plan"></dd></div>
              <div><dt>Account ID</dt><dd id="account-id" class="code"></dd></div>
            </dl>
          </section>
          <section class="card" aria-labelledby="sessions-title">
            <h2 id="sessions-title" tabindex="-1">Where you are signed in</h2>
            <p class="lead">End what you do not recognise: it has to sign in again.</p>
            <ul id="sessions"></ul>
            <button id="sign-out-everywhere" class="plain danger" type="button" hidden>Sign out everywhere</button>
          </section>
        </div>

        <section id="trouble" class="card" aria-labelledby="trouble-title" hidden>
          <h1 id="trouble-title" tabindex="-1">That did not work</h1>
          <p class="lead" id="trouble-text"></p>
          <button id="retry" class="primary" type="button">Try again</button>
        </section>
        </main>

        <p id="status" class="status" role="status"></p>

        <template id="session">
          <li>
            <svg class="device" width="24" height="24" viewBox="0 0 24 24" aria-hidden="true">
              <path class="computer" d="M4 5.5h16v10H4zM2 18.5h20"/>
              <path class="phone" d="M7 2.5h10v19H7zM11 18.5h2"/>
            </svg>
            <div>
              <p class="name"><span class="device-name"></span> <span class="badge here" hidden>This device</span></p>
              <p class="quiet">Last used <time class="used"></time></p>
              <p class="quiet">Since <time class="created"></time><span class="how"></span></p>
            </div>
            <button class="plain danger" type="button">End</button>
          </li>
        </template>
        </body>
        </html>

        """#
}
