//! Which requests are answered: those that name this machine, and those that show the token.

use std::io;

use axum::extract::{Query, Request};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, REFERRER_POLICY,
    SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use crate::acl::Users;
use crate::config::Config;

/// Least characters of a token, so that it cannot be guessed.
const TOKEN_MIN: usize = 16;

/// The header that only the page's own script sends: a page of another site cannot.
const PAGE_HEADER: &str = "x-cleave-page";

/// Paths that need no token.
const OPEN: [&str; 5] = ["/health/live", "/health/ready", "/login", "/style.css", "/icon.svg"];

/// What is allowed at the address of the page.
#[derive(Clone, Debug)]
pub struct PageGuard {
    /// What a request has to show, if anything.
    token: Option<String>,
    /// Whether keys and values are shown.
    pub browses: bool,
    /// Whether keys are changed and clients sent away.
    pub edits: bool,
    /// The name of the cookie with the token, which servers of one machine do not share.
    cookie: String,
}

/// The token in a form or behind a question mark.
#[derive(Deserialize)]
pub struct ShownToken {
    token: String,
}

impl PageGuard {
    /// What a configuration allows. Fails beyond the loopback address without a token, if the
    /// token can be guessed, and if keys would be seen without a right that clients need.
    pub fn of(config: &Config, users: &Users) -> io::Result<Self> {
        let refused = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let token = match &config.http_token_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|why| {
                    refused(format!("--http-token-file {}: {why}", path.display()))
                })?;
                let token = text.trim();
                let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
                if token.len() < TOKEN_MIN || !token.chars().all(plain) {
                    return Err(refused(format!(
                        "--http-token-file {}: a token has at least {TOKEN_MIN} letters, digits \
                         and -._~ in one line; make one with: openssl rand -hex 32",
                        path.display()
                    )));
                }
                Some(token.to_owned())
            }
        };
        let is_loopback = config.http.is_none_or(|address| address.ip().is_loopback());
        if !is_loopback && token.is_none() {
            return Err(refused(format!(
                "other machines reach the page at {}, and no token is asked for: say \
                 --http-token-file",
                config.http.map_or_else(String::new, |address| address.to_string())
            )));
        }
        let mut guard = Self {
            token,
            browses: config.http_browse == Some(true),
            edits: config.http_edit,
            cookie: String::new(),
        };
        let may_show = guard.may_show(users);
        if (guard.browses || guard.edits) && !may_show {
            let why = "keys at the page would need no password: say --http-token-file, or leave \
                       out --http-browse and --http-edit";
            return Err(refused(why.to_owned()));
        }
        guard.browses = config.http_browse.unwrap_or(is_loopback && may_show);
        Ok(guard)
    }

    /// Whether keys and values may be shown: the page asks for a token, or clients may do
    /// everything without a password.
    pub fn may_show(&self, users: &Users) -> bool {
        self.token.is_some() || users.default().rules.load().is_unrestricted()
    }

    /// The guard of a page at this port.
    #[must_use]
    pub fn at(self, port: u16) -> Self {
        Self { cookie: format!("cleave-{port}"), ..self }
    }

    /// The answer to a request that is not let through.
    pub fn refusal(&self, request: &Request) -> Option<Response> {
        let (path, header) = (request.uri().path(), |name| request.headers().get(name));
        // A name that another site has given this address would let its pages read ours.
        if self.token.is_none() && !header(HOST).is_some_and(names_machine) {
            let why = "this address is localhost, or a number: see --http\n";
            return Some((StatusCode::MISDIRECTED_REQUEST, why).into_response());
        }
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_page = || request.headers().contains_key(PAGE_HEADER);
        if !only_reads && path != "/login" && !is_page() {
            let why = format!("changes need the header {PAGE_HEADER}\n");
            return Some((StatusCode::FORBIDDEN, why).into_response());
        }
        if self.token.is_none() || OPEN.contains(&path) || self.is_shown(request) {
            return None;
        }
        Some(match path {
            "/" => self.login(shown(request.uri())),
            _ => {
                let why = "show the token: Authorization: Bearer TOKEN, or log in at /login\n";
                (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], why).into_response()
            }
        })
    }

    fn is_shown(&self, request: &Request) -> bool {
        let text = |value: &HeaderValue| value.to_str().map(str::to_owned).ok();
        let bearer = request.headers().get(AUTHORIZATION).and_then(text);
        let bearer = bearer.as_deref().and_then(|text| text.strip_prefix("Bearer "));
        let cookies = request.headers().get_all(COOKIE).iter().filter_map(text);
        let is_right = |cookies: String| {
            cookies.split(';').any(|cookie| {
                let cookie = cookie.trim().strip_prefix(self.cookie.as_str());
                cookie.and_then(|rest| rest.strip_prefix('=')).is_some_and(|it| self.is_token(it))
            })
        };
        bearer.is_some_and(|token| self.is_token(token)) || cookies.into_iter().any(is_right)
    }

    fn is_token(&self, shown: &str) -> bool {
        self.token.as_ref().is_none_or(|token| token.as_bytes().ct_eq(shown.as_bytes()).into())
    }

    /// Lets a browser in that shows the token, and asks for one otherwise.
    pub fn login(&self, shown: Option<ShownToken>) -> Response {
        match shown {
            Some(ShownToken { token }) if self.is_token(&token) => {
                let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
                ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
            }
            Some(_) => Redirect::to("/login#wrong").into_response(),
            None => Redirect::to("/login").into_response(),
        }
    }
}

/// The token behind the question mark of an address.
fn shown(uri: &Uri) -> Option<ShownToken> {
    Query::try_from_uri(uri).ok().map(|Query(shown)| shown)
}

/// Whether the host of a request is a number or this machine, with or without a port.
fn names_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let name = name.map_or(host, |(name, _)| name);
    let number = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || number.parse::<std::net::IpAddr>().is_ok()
}

/// Adds what keeps a browser from running or showing what is not of this server.
pub fn protect(mut response: Response) -> Response {
    let policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    let headers = [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_number_or_this_machine() {
        for (host, is_ours) in [
            ("localhost", true),
            ("LocalHost:6380", true),
            ("127.0.0.1:6380", true),
            ("[::1]:6380", true),
            ("[::1]", true),
            ("localhost.evil.example", false),
            ("evil.example:6380", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names_machine(&HeaderValue::from_static(host)), is_ours, "{host}");
        }
    }
}
