"""A Django service with accounts of its own, as it stands before a gateway is put in front of it.

Accounts are Django's own (`AbstractUser`) with a UUID, an email, a password in one of three forms or none (they came by Apple or
Google), and a subscription. Sign-in, by password or with a provider's token, gives a pair of JWTs. Everybody is served everything:
what is for premium readers is only labelled. Beside the API there are pages below /web/, and errors are Django's pages.
"""
