//! Certificates: what clients over TLS are shown, and which certificates of theirs are taken.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::Config;

/// The certificates that the options name; none if nothing is listened at with TLS.
pub fn certificates(config: &Config) -> Result<Option<Arc<ServerConfig>>, String> {
    let (cert, key) = match (&config.tls_cert, &config.tls_key) {
        _ if config.tls_listen.is_empty() => return Ok(None),
        (Some(cert), Some(key)) => (cert, key),
        _ => return Err("tls_listen needs tls_cert and tls_key".to_owned()),
    };
    let chain = of_file(cert)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| refused(key, &error))?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|it| it.to_string())?;
    let builder = match &config.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in of_file(path)? {
                roots.add(certificate).map_err(|error| refused(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|it| refused(path, &it))?)
        }
    };
    let made = builder.with_single_cert(chain, private).map_err(|error| refused(cert, &error))?;
    Ok(Some(Arc::new(made)))
}

/// The certificates of a file, of which there is one at least.
fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all.map_err(|error| refused(path, &error))? {
        none if none.is_empty() => Err(format!("{}: no certificate is in it", path.display())),
        all => Ok(all),
    }
}

fn refused(path: &Path, why: &dyn std::error::Error) -> String {
    format!("{}: {why}", path.display())
}
