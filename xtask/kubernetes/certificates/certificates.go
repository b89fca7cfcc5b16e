// Package certificates writes the keys and certificates of a test cluster: one authority, one
// certificate for all servers, one client certificate for each user, and the pair of keys that signs service account tokens.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lifetime of all certificates; a test cluster lives for hours.
const lifetime = 365 * 24 * time.Hour

// Addresses and names of the servers of every cluster, besides the address of its API server.
var (
	serverAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
	serverNames     = []string{"localhost", "kubernetes.default.svc"}
)

// authority signs the certificates of a cluster.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         crypto.Signer
}

// Run writes all files to a folder. Each argument after the options is a user: FILE=NAME or FILE=NAME,GROUP.
func Run(args []string) error {
	flags := flag.NewFlagSet("certificates", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder of the files, which exists")
	address := flags.String("address", "", "address of the API server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ip := net.ParseIP(*address)
	if ip == nil {
		return fmt.Errorf("--address %q: not an IP address", *address)
	}
	ca, err := newAuthority(*dir)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		IPAddresses: append(serverAddresses, ip),
		DNSNames:    serverNames,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if err := ca.issue("server", server); err != nil {
		return err
	}
	for _, user := range flags.Args() {
		if err := ca.issueUser(user); err != nil {
			return err
		}
	}
	return writeSigningKeys(*dir)
}

func newAuthority(dir string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "muster test cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	ca := &authority{dir: dir, certificate: template, key: key}
	return ca, ca.sign("ca", template, key)
}

// issueUser writes a client certificate.
func (ca *authority) issueUser(user string) error {
	file, subject, found := strings.Cut(user, "=")
	if !found {
		return fmt.Errorf("%q: not FILE=NAME or FILE=NAME,GROUP", user)
	}
	name, group, hasGroup := strings.Cut(subject, ",")
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if hasGroup {
		template.Subject.Organization = []string{group}
	}
	return ca.issue(file, template)
}

// issue writes a certificate with a new key.
func (ca *authority) issue(file string, template *x509.Certificate) error {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := newKey()
	if err != nil {
		return err
	}
	return ca.sign(file, template, key)
}

// sign writes a key and its certificate, signed by the authority.
func (ca *authority) sign(file string, template *x509.Certificate, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	// An hour earlier: clocks that are set back must not invalidate a cluster.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	signed, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return err
	}
	if err := write(ca.dir, file+".crt", "CERTIFICATE", signed, 0o644); err != nil {
		return err
	}
	return writeKey(ca.dir, file, key)
}

// writeSigningKeys writes the pair of keys of service account tokens.
func writeSigningKeys(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := write(dir, "service-accounts.pub", "PUBLIC KEY", public, 0o644); err != nil {
		return err
	}
	return writeKey(dir, "service-accounts", key)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeKey(dir, file string, key crypto.Signer) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(dir, file+".key", "PRIVATE KEY", private, 0o600)
}

func write(dir, file, kind string, bytes []byte, mode os.FileMode) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	return os.WriteFile(filepath.Join(dir, file), text, mode)
}
