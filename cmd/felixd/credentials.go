package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"felix.local/felix/auth"
)

type credentialsCommands struct {
	Add    credentialsAddCommand    `cmd:"" help:"Add a principal: its name, its hashed secret and what it may do. A secret that is made is printed once."`
	Check  credentialsCheckCommand  `cmd:"" help:"List principals and what they may do. Exits 3 when the server would refuse the file."`
	Remove credentialsRemoveCommand `cmd:"" help:"Remove a principal."`
}

// credentialsFlags name the file.
type credentialsFlags struct {
	File string `name:"file" env:"FELIX_CREDENTIALS_FILE" required:"" type:"path" placeholder:"FILE" help:"the credentials file"`
	outputFlags
}

type credentialsAddCommand struct {
	Name        string   `name:"name" required:"" placeholder:"NAME" help:"letters, digits, '-' and '_'"`
	Grant       []string `name:"grant" required:"" sep:"none" placeholder:"ACTIONS:TENANT" help:"such as read,write:acme* or admin:*; may be given several times; actions are read, write and admin"`
	SecretStdin bool     `name:"secret-stdin" help:"read the secret from standard input; without it one is made and printed"`
	TokenFile   string   `name:"token-file" type:"path" placeholder:"FILE" help:"write the token to this new file, for its owner alone, and print no secret"`
	credentialsFlags
}

// credentialAddedEvent says what was added. Secret and token are there when the
// command made the secret and wrote the token to no file.
type credentialAddedEvent struct {
	File   string   `json:"file"`
	Name   string   `json:"name"`
	Grants []string `json:"grants"`
	Secret string   `json:"secret,omitempty"`
	Token  string   `json:"token,omitempty"`
}

func (credentialAddedEvent) kind() string { return "credential_added" }

func (e credentialAddedEvent) text() string {
	text := fmt.Sprintf("added %s to %s: %s", e.Name, e.File, strings.Join(e.Grants, " "))
	if e.Secret != "" {
		text += fmt.Sprintf("\nsecret: %s\ntoken:  %s\nThis is the only time they are shown.", e.Secret, e.Token)
	}
	return text + "\nA server that runs learns of it by SIGHUP."
}

// Run prints last: a secret that was printed works.
func (c *credentialsAddCommand) Run(a *app) error {
	secret := auth.NewSecret()
	if c.SecretStdin {
		given, err := readSecret(a.ctx, os.Stdin)
		if err != nil {
			return err
		}
		secret = given
	}
	token := auth.Token(c.Name, secret)
	if err := c.add(secret, token); err != nil {
		var weak *auth.SecretError
		var invalid *auth.PrincipalError
		if errors.As(err, &weak) || errors.As(err, &invalid) {
			return usage("%w", err)
		}
		return err
	}
	added := credentialAddedEvent{File: c.File, Name: c.Name, Grants: c.Grant}
	if !c.SecretStdin && c.TokenFile == "" {
		added.Secret, added.Token = secret, token
	}
	if err := a.output(c.outputFlags).emit(added); err != nil {
		return fmt.Errorf("%s was added to %s, and this could not be printed; if its secret is lost, remove it and add it again: %w", c.Name, c.File, err)
	}
	return nil
}

// add changes the credentials file, with the token's file made first: if one of
// the two is missing in the end, it is the principal, which can be added again.
func (c *credentialsAddCommand) add(secret, token string) error {
	add := auth.AddGenerated
	if c.SecretStdin {
		add = auth.Add
	}
	if c.TokenFile == "" {
		return add(c.File, c.Name, secret, c.Grant)
	}
	f, err := os.OpenFile(c.TokenFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the token needs a file of its own: %w", err)
	}
	_, err = fmt.Fprintln(f, token)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = add(c.File, c.Name, secret, c.Grant)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(c.TokenFile))
	}
	return err
}

// readSecret reads the one line of standard input, or gives up when interrupted.
func readSecret(ctx context.Context, in *os.File) (string, error) {
	if isTerminal(in) {
		return "", usage("standard input is a terminal, which would show the secret; pipe it in, or leave out --secret-stdin to have one made")
	}
	type reading struct {
		data []byte
		err  error
	}
	read := make(chan reading, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(in, auth.SecretMax+3)) // a line end, and one byte too many
		read <- reading{data, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return "", fmt.Errorf("reading the secret from standard input: %w", r.err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(r.data), "\n"), "\r"), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

type credentialsRemoveCommand struct {
	Name string `name:"name" required:"" placeholder:"NAME" help:"the principal to remove"`
	credentialsFlags
}

// credentialRemovedEvent says what was removed.
type credentialRemovedEvent struct {
	File string `json:"file"`
	Name string `json:"name"`
}

func (credentialRemovedEvent) kind() string { return "credential_removed" }

func (e credentialRemovedEvent) text() string {
	return fmt.Sprintf("removed %s from %s\nA server that runs learns of it by SIGHUP.", e.Name, e.File)
}

// Run removes a principal.
func (c *credentialsRemoveCommand) Run(a *app) error {
	if err := auth.Remove(c.File, c.Name); err != nil {
		return err
	}
	return a.output(c.outputFlags).emit(credentialRemovedEvent{File: c.File, Name: c.Name})
}
