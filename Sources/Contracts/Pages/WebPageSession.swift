extension WebPage {
    /// The tokens and every request that carries one.
    static let sessionScript = #"""
        // The access token is in this module alone, so that it is gone with the page. The refresh token must outlive a
        // reload: it is in sessionStorage, which belongs to one tab and is emptied when that closes. localStorage would
        // keep it for the next person at the computer. A cookie would be sent without being asked for, which other sites
        // could abuse. Neither token is ever part of a URL.
        const key = "refresh";
        const storage = openStorage();
        const auth = document.querySelector("meta[name=auth]").content;
        let access = null;
        let refreshing = null;

        /// Where a browser lets nothing be stored, a session lasts until the page is left.
        function openStorage() {
          try {
            sessionStorage.getItem(key);
            return sessionStorage;
          } catch {
            let held = null;
            return { getItem: () => held, setItem: (_, value) => { held = value; }, removeItem: () => { held = null; } };
          }
        }

        /// An answer that says no, in words for people.
        export class Refusal extends Error {
          constructor(status, message) {
            super(message);
            this.status = status;
          }
        }

        /// The session has ended: only signing in helps.
        export class SignedOut extends Error {}

        export const isSignedIn = () => storage.getItem(key) !== null;
        export const signIn = (credentials) => open("/login", credentials);
        export const register = (person) => open("/register", person);
        export const account = async () => read(await authorized("GET", "api/account"));
        export const sessions = async () => (await read(await authorized("GET", "api/sessions"))).sessions;

        export async function endSession(id) {
          const answer = await authorized("DELETE", `api/sessions/${encodeURIComponent(id)}`);
          // It may have ended by itself meanwhile.
          if (answer.status !== 404) await read(answer);
        }

        export const signOut = () => leave("api/signout");
        export const signOutEverywhere = () => leave("api/signout/everywhere");

        async function leave(path) {
          try {
            await read(await authorized("POST", path));
          } catch (fault) {
            // What was asked for is so.
            if (!(fault instanceof SignedOut)) throw fault;
          }
          forget();
        }

        async function open(path, body) {
          const { tokens } = await read(await send("POST", auth + path, { body }));
          access = tokens.access;
          storage.setItem(key, tokens.refresh);
        }

        function forget() {
          access = null;
          storage.removeItem(key);
        }

        /// Asks with the access token. On 401 it is renewed, once, and asked again.
        async function authorized(method, path) {
          if (access === null) await refresh();
          const used = access;
          const answer = await send(method, path, { token: used });
          if (answer.status !== 401) return answer;
          // Another request may have renewed it since this one left.
          if (access === used || access === null) await refresh();
          const again = await send(method, path, { token: access });
          if (again.status !== 401) return again;
          forget();
          throw new SignedOut();
        }

        /// Renews the access token; whoever asks meanwhile waits for the same answer.
        function refresh() {
          refreshing ??= renew().finally(() => { refreshing = null; });
          return refreshing;
        }

        async function renew() {
          const token = storage.getItem(key);
          if (token === null) throw new SignedOut();
          const answer = await send("POST", auth + "/refresh", { body: { refresh: token } });
          if (answer.status === 400 || answer.status === 401) {
            forget();
            throw new SignedOut();
          }
          access = (await read(answer)).access;
        }

        async function send(method, path, { token, body } = {}) {
          const headers = { Accept: "application/json" };
          if (token) headers.Authorization = `Bearer ${token}`;
          if (body) headers["Content-Type"] = "application/json";
          try {
            return await fetch(path, {
              method, headers, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit",
              redirect: "error", signal: AbortSignal.timeout(20_000),
            });
          } catch {
            throw new Refusal(0, "The server does not answer. Check your connection and try again.");
          }
        }

        /// The value in an answer that says yes.
        async function read(answer) {
          const value = answer.status === 204 ? {} : await answer.json().catch(() => null);
          if (answer.ok && value !== null) return value;
          throw new Refusal(answer.status, sentence(answer, value));
        }

        function sentence(answer, value) {
          if (answer.status === 429) return `Too many attempts. Try again ${wait(answer)}.`;
          const said = value?.error?.message;
          if (answer.status < 500 && typeof said === "string") return said;
          return `The server is busy. Try again ${wait(answer)}.`;
        }

        function wait(answer) {
          const seconds = Number(answer.headers.get("Retry-After"));
          if (!(seconds > 0)) return "in a moment";
          if (seconds < 90) return seconds === 1 ? "in a second" : `in ${Math.ceil(seconds)} seconds`;
          return `in ${Math.ceil(seconds / 60)} minutes`;
        }

        """#
}
