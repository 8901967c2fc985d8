package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// How long the keys of one run are good for. A run lasts minutes; a demonstration may stand for days.
const lifetime = 30 * 24 * time.Hour

// writeCerts puts into the folder named by its one argument:
//
//	ca.crt          the authority that every client of this run trusts
//	server.crt/.key the API server's, for 127.0.0.1 and the names a cluster gives it
//	sa.key/.pub     what signs and verifies ServiceAccount tokens
//
// The authority's own key is not kept: nothing else is ever signed by it.
func writeCerts(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: certs FOLDER")
	}
	folder := arguments[0]
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test control plane"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authorityCert, err := signed(authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serverCert, err := signed(server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountPublic, err := x509.MarshalPKIXPublicKey(accountKey.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(folder, "ca.crt", "CERTIFICATE", authorityCert),
		writePEM(folder, "server.crt", "CERTIFICATE", serverCert),
		writeKey(folder, "server.key", serverKey),
		writeKey(folder, "sa.key", accountKey),
		writePEM(folder, "sa.pub", "PUBLIC KEY", accountPublic),
	)
}

func signed(certificate, by *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, certificate, by, key, signer)
}

func writeKey(folder, name string, key *ecdsa.PrivateKey) error {
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(folder, name, "PRIVATE KEY", bytes)
}

func writePEM(folder, name, kind string, bytes []byte) error {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	return os.WriteFile(filepath.Join(folder, name), block, 0o600)
}
